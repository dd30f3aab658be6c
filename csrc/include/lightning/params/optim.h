// Parameter blocks: step control, AdamW, expert bias (csrc/optim/). Conventions: ../params.h.
#pragma once

#include "lightning/params/abi.h"
