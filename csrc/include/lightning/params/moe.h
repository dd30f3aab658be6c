// Parameter blocks: router, dispatch, experts, combine, squared ReLU (csrc/moe/). Conventions: ../params.h.
#pragma once

#include "lightning/params/abi.h"
