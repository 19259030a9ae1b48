"""Re-exports of `_missing`."""

from ._completions import log_completions as log_completions
from ._missing import Missing as Missing
from ._missing import verify_latents as verify_latents
