// Mistakes in the options of a Trainer. The compiler must name the field or what to write instead.
#include "cairn/train/options.h"

struct Net {};
struct TorchLoader {};

void mistakes(Net net, std::unique_ptr<TorchLoader> loader) {
  const cairn::TrainerOptions typo{.save_dir = "ckpt"};
  const cairn::TrainerOptions raw_module{.model = net};
  const cairn::TrainerOptions torch_loader{.train_dataloader = std::move(loader)};
}
