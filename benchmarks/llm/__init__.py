"""Which answers of a language model may be sent: certificates and what people do today."""
