// Parameter blocks: linear cross entropy (csrc/loss/). Conventions: ../params.h.
#pragma once

#include "lightning/params/abi.h"
