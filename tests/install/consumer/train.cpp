// Links against an installed cairn::train and the libtorch that it brings. Argument: a file to
// write.
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <cairn/checkpoint.h>
#include <cairn/train/state_dict.h>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const at::Tensor tensor = at::arange(6);
  cairn::save(cairn::view_of(tensor), argv[1]);
  return at::equal(cairn::tensor_of(cairn::load(argv[1]).as_tensor()), tensor) ? 0 : 1;
}
