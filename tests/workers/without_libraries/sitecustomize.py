"""Makes a Python that starts with this folder on its path lack the modules that WITHOUT_LIBRARIES names."""

import os
import sys

for name in os.environ.get("WITHOUT_LIBRARIES", "").split():
    sys.modules[name] = None  # the import system reports it as missing
