"""Names that columns of ids have."""

import re

ID_NAME = re.compile(r"(?i:(.*[\W_])?(id|uuid|guid))|.*[a-z]I[dD]")
