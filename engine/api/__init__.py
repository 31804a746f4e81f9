"""The HTTP door: OpenAI's API under ``/v1``, the control plane under ``/api``."""
