#include "train/fused/kernels.h"

namespace cairn::fused {

namespace baseline {
template <class Step>
Kernel<Step> find_kernel(Element element, unsigned flags, bool fma);
}

#ifdef CAIRN_HAS_AVX2_KERNELS
namespace avx2 {
template <class Step>
Kernel<Step> find_kernel(Element element, unsigned flags, bool fma);
}

namespace {
bool has_avx2() {
  static const bool kHas = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return kHas;
}
}  // namespace
#endif

template <class Step>
Kernel<Step> find_kernel(Element element, unsigned flags, bool fma) {
#ifdef CAIRN_HAS_AVX2_KERNELS
  if (has_avx2()) return avx2::find_kernel<Step>(element, flags, fma);
#endif
  return baseline::find_kernel<Step>(element, flags, fma);
}

template Kernel<Adam> find_kernel(Element, unsigned, bool);
template Kernel<Sgd> find_kernel(Element, unsigned, bool);
template Kernel<Rmsprop> find_kernel(Element, unsigned, bool);
template Kernel<Adagrad> find_kernel(Element, unsigned, bool);
template Kernel<Nadam> find_kernel(Element, unsigned, bool);
template Kernel<Radam> find_kernel(Element, unsigned, bool);
template Kernel<Average> find_kernel(Element, unsigned, bool);
template Kernel<Scale> find_kernel(Element, unsigned, bool);
template Kernel<Clamp> find_kernel(Element, unsigned, bool);
template Kernel<Unscale> find_kernel(Element, unsigned, bool);

}  // namespace cairn::fused
