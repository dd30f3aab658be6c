// Parameter blocks: causal convolution with SiLU (csrc/conv/). Conventions: ../params.h.
#pragma once

#include "lightning/params/abi.h"
