// Parameter blocks: sums over blocks, fills and casts (csrc/reduce/). Conventions: ../params.h.
#pragma once

#include "lightning/params/abi.h"
