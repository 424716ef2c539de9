// A library of the host's, from which kernels need nothing: `header_names.py` says which. A real one in a folder that
// `-I` names goes before it.
#pragma once
