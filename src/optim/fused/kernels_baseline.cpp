#define CAIRN_KERNELS baseline
#include "optim/fused/kernels.inc"
