"""The package that reads and writes the model files of other tools.

In: files of other tools, factor graphs with parameters, and networks. Out: programs with their
inputs and parameters, and such files. Never: JAX, data rows.
"""

from ._graph_tables import verify_tables
from ._program_text import ImportedModel
from ._read_model import read_model
from ._write_model import evidence_path, most_numbers, verified_ending, write_graphml, write_model
