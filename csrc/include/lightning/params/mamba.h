// Parameter blocks: time steps and the SSD scan (csrc/mamba/). Conventions: ../params.h.
#pragma once

#include "lightning/params/abi.h"
