// Compiled with -mavx2 -mfma.
#define CAIRN_KERNELS avx2
#include "train/fused/kernels.inc"
