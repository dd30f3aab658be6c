// Parameter blocks: matrix products (csrc/gemm/). Conventions: ../params.h.
#pragma once

#include "lightning/params/abi.h"
