// Parameter blocks: causal grouped-query attention (csrc/attention/). Conventions: ../params.h.
#pragma once

#include "lightning/params/abi.h"
