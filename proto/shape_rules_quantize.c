/* Shape rules of quantization. */
#include "proto/shape_rules.h"
