// All of cairn: the core, and training on libtorch. Adds a second or two of compilation to
// <torch/torch.h>, which it does not include. In a project of several files, precompile both.
//
// Programs that only read, write and convert checkpoints include cairn/checkpoint.h and link
// cairn::core: neither needs libtorch.
#pragma once

#include "cairn/algorithms/channels_last.h"
#include "cairn/algorithms/ema.h"
#include "cairn/algorithms/gradient_clipping.h"
#include "cairn/algorithms/label_smoothing.h"
#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/callbacks/early_stopper.h"
#include "cairn/callbacks/lr_monitor.h"
#include "cairn/callbacks/memory_monitor.h"
#include "cairn/callbacks/nan_monitor.h"
#include "cairn/callbacks/optimizer_monitor.h"
#include "cairn/callbacks/runtime_estimator.h"
#include "cairn/callbacks/speed_monitor.h"
#include "cairn/checkpoint.h"
#include "cairn/loggers/console_logger.h"
#include "cairn/loggers/file_logger.h"
#include "cairn/loggers/in_memory_logger.h"
#include "cairn/loggers/progress_bar_logger.h"
#include "cairn/loggers/remote_uploader_downloader.h"
#include "cairn/loggers/run_directory_uploader.h"
#include "cairn/metrics/metrics.h"
#include "cairn/optim/optimizers.h"
#include "cairn/schedulers/schedulers.h"
#include "cairn/schedulers/torch_schedulers.h"
#include "cairn/train/parameters.h"
#include "cairn/train/rng.h"
#include "cairn/train/scaler.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"
