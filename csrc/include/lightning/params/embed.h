// Parameter blocks: token embedding, document bounds, rolls (csrc/embed/). Conventions: ../params.h.
#pragma once

#include "lightning/params/abi.h"
