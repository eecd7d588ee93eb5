// Composer's examples with object stores. They are from its guide "Checkpointing" ("Uploading
// Checkpoints to Object Store" and "Loading Checkpoints from Object Store"), its guide "Auto
// Resumption" ("Example: Object Store" and "Example: Fine-tuning"), and the checkpointing guide of
// 0.6. The caller gives the name of the bucket; the server and the keys are those of the
// environment (docs/storage.md).
#include <torch/torch.h>

#include "cairn/loggers/remote_uploader_downloader.h"
#include "cairn/loggers/run_directory_uploader.h"
#include "cairn/storage/libcloud.h"
#include "cairn/train/trainer.h"

#include "guide.h"

namespace guide {

using cairn::RemoteUploaderDownloader;
using cairn::Trainer;

// "The easiest way to upload checkpoints". For CoreWeave, set S3_ENDPOINT_URL in the environment.
void save_in_a_bucket(Model model, DataSpec train_dataloader, const std::string& bucket) {
  Trainer trainer({
      .model = model,
      .train_dataloader = train_dataloader,
      .max_duration = "10ep",
      .save_folder = "s3://" + bucket + "/checkpoints",
      .save_filename = "ep{epoch}.pt",
      .save_overwrite = true,
      .save_interval = "1ep",
      .save_num_checkpoints_to_keep = 0,  // delete all checkpoints locally
  });
  trainer.fit();
}

// "This is equivalent to creating a RemoteUploaderDownloader object and adding it to loggers"
void upload_with_a_logger(Model model, DataSpec train_dataloader, const std::string& bucket) {
  const auto remote_uploader_downloader =
      std::make_shared<RemoteUploaderDownloader>(cairn::RemoteUploaderDownloaderOptions{
          .store = cairn::libcloud_store({
              .provider = "s3",  // the Apache Libcloud provider name
              .container = bucket,
              // .key, .secret: by default those of the environment
          })});
  Trainer trainer({
      .model = model,
      .train_dataloader = train_dataloader,
      .max_duration = "10ep",
      .loggers = {remote_uploader_downloader},
      .save_folder = "checkpoints",
      .save_filename = "ep{epoch}.pt",
      .save_overwrite = true,
      .save_interval = "1ep",
      .save_num_checkpoints_to_keep = 0,  // delete all checkpoints locally
  });
  trainer.fit();
}

// "Provide the LibcloudObjectStore to the trainer's load_object_store argument". Returns the epoch
// at which the run began.
std::int64_t load_from_a_store(Model model, DataSpec train_dataloader, const std::string& bucket) {
  Trainer new_trainer({
      .model = model,
      .train_dataloader = train_dataloader,
      .max_duration = "10ep",
      .load_path = "checkpoints/ep1.pt",
      .load_object_store = cairn::libcloud_store({
          .provider = "s3",  // the Apache Libcloud provider name
          .container = bucket,
      }),
  });
  const std::int64_t first_epoch = new_trainer.state().timestamp.epoch;
  new_trainer.fit();
  return first_epoch;
}

// The guide of 0.6: ObjectStoreHparams. Its `load_path_format` is now `load_path`. Returns the
// epoch at which the run began.
std::int64_t load_with_hparams(Model model, DataSpec train_dataloader, const std::string& bucket) {
  const cairn::ObjectStoreHparams hp = {
      .provider = "s3",
      .container = bucket,
      .key_environ = "AWS_ACCESS_KEY_ID",
      .secret_environ = "AWS_SECRET_ACCESS_KEY",
  };
  Trainer trainer({
      .model = model,
      .train_dataloader = train_dataloader,
      .max_duration = "10ep",
      .load_path = "checkpoints/ep1.pt",
      .load_object_store = hp.initialize_object(),
      .load_weights_only = false,
      .load_strict_model_weights = false,
  });
  return trainer.state().timestamp.epoch;
}

// "An easier way to load checkpoints from S3". Returns the epoch at which the run began.
std::int64_t load_from_a_uri(Model model, DataSpec train_dataloader, const std::string& bucket) {
  Trainer new_trainer({
      .model = model,
      .train_dataloader = train_dataloader,
      .max_duration = "10ep",
      .load_path = "s3://" + bucket + "/checkpoints/ep1.pt",
  });
  const std::int64_t first_epoch = new_trainer.state().timestamp.epoch;
  new_trainer.fit();
  return first_epoch;
}

// "Example: Object Store". Returns the epoch at which the run began. `max_duration` is "10ep" in
// the guide.
std::int64_t resume_from_a_bucket(Model model, DataSpec train_dataloader, const std::string& bucket,
                                  cairn::Duration max_duration) {
  Trainer trainer({
      .model = model,
      .train_dataloader = train_dataloader,
      .max_duration = max_duration,
      .loggers = {RemoteUploaderDownloader({.bucket_uri = "s3://" + bucket})},
      .run_name = "my_cool_run",
      .save_folder = "checkpoints",
      .save_filename = "ep{epoch}.pt",
      .save_num_checkpoints_to_keep = 0,  // delete all checkpoints locally
      .autoresume = true,
  });
  const std::int64_t first_epoch = trainer.state().timestamp.epoch;
  trainer.fit();
  return first_epoch;
}

// "Example: Fine-tuning". Returns the epoch at which the run began.
std::int64_t fine_tune_with_a_logger(Model model, DataSpec train_dataloader,
                                     const std::string& bucket) {
  Trainer trainer({
      .model = model,
      .train_dataloader = train_dataloader,
      .max_duration = "10ep",
      .loggers = {RemoteUploaderDownloader({.bucket_uri = "s3://" + bucket})},
      .run_name = "my_cool_run",
      .load_path = "pretrained_weights/model.pt",
      .load_weights_only = true,
      .save_folder = "checkpoints",
      .autoresume = true,
  });
  const std::int64_t first_epoch = trainer.state().timestamp.epoch;
  trainer.fit();
  return first_epoch;
}

// The guide of 0.6: RunDirectoryUploader. Its files to upload and its store are given here.
void upload_the_run_directory(Model model, DataSpec train_dataloader, const std::string& bucket) {
  Trainer trainer({
      .model = model,
      .train_dataloader = train_dataloader,
      .max_duration = "10ep",
      .loggers = {cairn::RunDirectoryUploader({
          .bucket_uri = "s3://" + bucket,
          .run_directory = "runs/my_run",
          .upload_every_n_batches = 100,
      })},
      .save_folder = "runs/my_run/checkpoints",
      .save_filename = "ep{epoch}.pt",
      .save_interval = "1ep",
  });
  trainer.fit();
}

}  // namespace guide
