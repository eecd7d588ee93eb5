#define CAIRN_KERNELS baseline
#include "train/fused/kernels.inc"
