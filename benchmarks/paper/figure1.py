"""The paper's Figure 1 on simulated data, with the known truth drawn in; figures/figure1.png.

The gallery draws it; here the picture is only kept.
"""

import runpy
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

HERE = Path(__file__).parent
TARGET = HERE / "figures" / "figure1.png"
EXAMPLE = HERE.parents[1] / "examples" / "plot_1_figure1.py"


def main() -> None:
    figure = runpy.run_path(str(EXAMPLE))["figure"]
    TARGET.parent.mkdir(exist_ok=True)
    figure.savefig(TARGET, dpi=110)


if __name__ == "__main__":
    main()
