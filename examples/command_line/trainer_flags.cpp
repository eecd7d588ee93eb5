#include "trainer_flags.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "cairn/error.h"
#include "cairn/train/options.h"

namespace examples {
namespace {

using cairn::FSDPConfig;
using cairn::TrainerOptions;

// A cairn::Word is a std::string.
template <auto kField>
std::string& text_of(FSDPConfig& config) {
  return config.*kField;
}
constexpr std::pair<const char*, std::string& (*)(FSDPConfig&)> kTextsOfFsdp[] = {
    {"sharding_strategy", text_of<&FSDPConfig::sharding_strategy>},
    {"state_dict_type", text_of<&FSDPConfig::state_dict_type>},
    {"sharded_ckpt_prefix_dir", text_of<&FSDPConfig::sharded_ckpt_prefix_dir>},
    {"backward_prefetch", text_of<&FSDPConfig::backward_prefetch>},
};
constexpr std::pair<const char*, bool FSDPConfig::*> kTogglesOfFsdp[] = {
    {"forward_prefetch", &FSDPConfig::forward_prefetch},
    {"activation_checkpointing", &FSDPConfig::activation_checkpointing},
    {"auto_wrap", &FSDPConfig::auto_wrap},
    {"verbose", &FSDPConfig::verbose},
};

// Sets a field from "state_dict_type=sharded".
void set_field(FSDPConfig& config, const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
  std::string names;
  for (const auto& [known, field] : kTextsOfFsdp) {
    names += std::string(" ") + known;
    if (name != known) continue;
    field(config) = value;
    return;
  }
  for (const auto& [known, field] : kTogglesOfFsdp) {
    names += std::string(" ") + known;
    if (name != known || (value != "true" && value != "false")) continue;
    config.*field = value == "true";
    return;
  }
  throw cairn::UsageError("--parallelism-config: \"" + text + "\" is no FIELD=VALUE of" + names);
}

// Has one method per kind of option. `help` is for --help.
class Flags {
 public:
  explicit Flags(CLI::App& app) : app_(app) {}

  template <class T>
  void value(const std::string& name, T& field, const std::string& help) {
    app_.add_option(name, field, help)->capture_default_str();
  }

  void seconds(const std::string& name, std::chrono::seconds& field, const std::string& help) {
    auto set = [&field](const std::int64_t& number) { field = std::chrono::seconds(number); };
    app_.add_option_function<std::int64_t>(name, set, help + ", seconds")
        ->default_str(std::to_string(field.count()));
  }

  void seconds(const std::string& name, cairn::Seconds& field, const std::string& help) {
    auto set = [&field](const double& number) { field = number; };
    app_.add_option_function<double>(name, set, help + ", seconds")
        ->default_str(std::to_string(field.count()));
  }

  // A text or a cairn::Word.
  template <class Text>
  void optional_text(const std::string& name, std::optional<Text>& field, const std::string& help) {
    app_.add_option_function<std::string>(
            name,
            [&field](const std::string& text) {
              field = text.empty() ? std::nullopt : std::optional<Text>(text);
            },
            help)
        ->default_str(field.value_or(""));
  }

  template <class Number>
  void optional_number(const std::string& name, std::optional<Number>& field,
                       const std::string& help) {
    auto set = [&field](const Number& number) { field = number; };
    app_.add_option_function<Number>(name, set, help)
        ->default_str(field ? std::to_string(*field) : "");
  }

  void microbatch_size(const std::string& name, std::optional<cairn::MicrobatchSize>& field,
                       const std::string& help) {
    auto set = [&field](const std::string& text) {
      std::int64_t samples = 0;
      const char* const end = text.data() + text.size();
      const bool is_number = std::from_chars(text.data(), end, samples).ptr == end;
      field = is_number ? cairn::MicrobatchSize(samples) : cairn::MicrobatchSize(text);
    };
    app_.add_option_function<std::string>(name, set, help);
  }

  void toggle(const std::string& name, bool& field, const std::string& help) {
    app_.add_flag("--" + name + ",!--no-" + name, field, help + (field ? " [on]" : " [off]"));
  }

  void optional_toggle(const std::string& name, std::optional<bool>& field,
                       const std::string& help) {
    app_.add_flag_function(
        "--" + name + ",!--no-" + name, [&field](std::int64_t count) { field = count > 0; }, help);
  }

  // An Interval or a Duration: a number of epochs or a time string.
  template <class T>
  void time(const std::string& name, T& field, const std::string& help) {
    auto set = [&field, name](const std::string& text) {
      const bool is_number = !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
      try {
        field = cairn::Time(is_number ? text + "ep" : text);
      } catch (cairn::UsageError& error) {
        error.add_context(name);
        throw;
      }
    };
    app_.add_option_function<std::string>(name, set, help);
  }

  void list(const std::string& name, std::vector<std::string>& field, const std::string& help) {
    app_.add_option(name, field, help)->allow_extra_args(false);
  }

  void ignore_keys(const std::string& name, cairn::IgnoreKeys& field, const std::string& help) {
    auto set = [&field](const std::vector<std::string>& patterns) { field = patterns; };
    app_.add_option_function<std::vector<std::string>>(name, set, help)->allow_extra_args(false);
  }

  void parallelism(const std::string& name, std::optional<cairn::ParallelismConfig>& field,
                   const std::string& help) {
    auto set = [&field](const std::vector<std::string>& texts) {
      FSDPConfig config;
      for (const std::string& text : texts)
        set_field(config, text);
      field = cairn::ParallelismConfig{.fsdp = config};
    };
    app_.add_option_function<std::vector<std::string>>(name, set, help)->allow_extra_args(false);
  }

  // "METRIC", "METRIC:3" or "METRIC:3:min".
  void keep_best(const std::string& name, std::optional<cairn::KeepBest>& field,
                 const std::string& help) {
    auto set = [&field, name](const std::string& text) {
      const std::vector<std::string> parts = CLI::detail::split(text, ':');
      cairn::KeepBest best{.metric = parts.at(0)};
      if (parts.size() > 3 ||
          (parts.size() > 1 && !CLI::detail::lexical_cast(parts[1], best.count)))
        throw cairn::UsageError(name + ": \"" + text + "\" is no METRIC[:N[:MODE]]");
      if (parts.size() > 2) best.mode = parts[2];
      field = best;
    };
    app_.add_option_function<std::string>(name, set, help);
  }

  void deepspeed(const std::string& name, std::optional<cairn::Value>& field,
                 const std::string& help) {
    auto set = [&field](const std::int64_t& stage) {
      field = cairn::Dict{{"zero_optimization", cairn::Dict{{"stage", stage}}}};
    };
    app_.add_option_function<std::int64_t>(name, set, help);
  }

 private:
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  CLI::App& app_;
};

void add_training(Flags flags, TrainerOptions& o) {
  flags.value("--train-dataloader-label", o.train_dataloader_label, "name of the data in logs");
  flags.optional_number("--train-subset-num-batches", o.train_subset_num_batches,
                        "batches of an epoch; none: all");
  flags.toggle("spin-dataloaders", o.spin_dataloaders, "seek to the position on resume");
  flags.time("--max-duration", o.max_duration, "how long to train: 20ep, 500ba, 60000sp, ...");
  flags.value("--scale-schedule-ratio", o.scale_schedule_ratio, "shortens or stretches the run");
  flags.optional_toggle("step-schedulers-every-batch", o.step_schedulers_every_batch,
                        "or every epoch");
  flags.time("--eval-interval", o.eval_interval, "how often to evaluate");
  flags.optional_number("--eval-subset-num-batches", o.eval_subset_num_batches,
                        "batches of an evaluation; none: all");
  flags.optional_text("--run-name", o.run_name, "name of this run");
  flags.toggle("progress-bar", o.progress_bar, "show a progress bar");
  flags.toggle("log-to-console", o.log_to_console, "print metrics as lines");
  flags.value("--console-stream", o.console_stream, "stderr or stdout");
  flags.time("--console-log-interval", o.console_log_interval, "how often to print metrics");
  flags.toggle("log-traces", o.log_traces, "print which algorithms ran");
  flags.toggle("auto-log-hparams", o.auto_log_hparams, "log the options as hyperparameters");
  flags.value("--log-level", o.log_level, "lines to log: info, warning or error");
}

void add_loading(Flags flags, TrainerOptions& o) {
  flags.optional_text("--load-path", o.load_path, "checkpoint to start from");
  flags.toggle("load-weights-only", o.load_weights_only, "load only the weights");
  flags.toggle("load-strict-model-weights", o.load_strict_model_weights,
               "refuse missing and unexpected weights");
  flags.toggle("load-progress-bar", o.load_progress_bar,
               "show the progress of a load from a store");
  flags.optional_number("--load-chunk-size", o.load_chunk_size,
                        "most bytes per request of such a load; none: the store decides");
  flags.toggle("load-in-place", o.load_in_place,
               "read weights straight into the model, without extra memory");
  flags.ignore_keys("--load-ignore-keys", o.load_ignore_keys,
                    "leave out when loading, such as 'state/callbacks/*'");
  flags.list("--load-exclude-algorithms", o.load_exclude_algorithms,
             "algorithms not to take from the checkpoint");
}

void add_saving(Flags flags, TrainerOptions& o) {
  flags.optional_text("--save-folder", o.save_folder, "where to save; none: nothing is saved");
  flags.value("--save-filename", o.save_filename, "name of each checkpoint");
  flags.optional_text("--save-latest-filename", o.save_latest_filename,
                      "link to the newest checkpoint");
  flags.optional_text("--save-remote-file-name", o.save_remote_file_name,
                      "name that an uploading logger gives a checkpoint");
  flags.optional_text("--save-latest-remote-file-name", o.save_latest_remote_file_name,
                      "name that it gives the link");
  flags.toggle("save-overwrite", o.save_overwrite, "replace checkpoints of an earlier run");
  flags.time("--save-interval", o.save_interval, "how often to save: 1ep, 20ba, 0.1dur, 30sec");
  flags.toggle("save-weights-only", o.save_weights_only, "save only the model");
  flags.ignore_keys("--save-ignore-keys", o.save_ignore_keys, "leave out when saving");
  flags.optional_number("--save-num-checkpoints-to-keep", o.save_num_checkpoints_to_keep,
                        "remove older ones; none: keep all");
  flags.optional_number("--save-num-remote-checkpoints-to-keep",
                        o.save_num_remote_checkpoints_to_keep, "the same in a store");
  flags.keep_best("--save-keep-best", o.save_keep_best,
                  "keep the best, too: METRIC[:N[:MODE]], such as eval/CrossEntropy:3:min");
  flags.seconds("--save-upload-timeout", o.save_upload_timeout,
                "how long the end of the run waits for uploads");
  flags.seconds("--save-store-patience", o.save_store_patience,
                "how long a store may be away before the run ends");
  flags.toggle("save-metrics", o.save_metrics, "save the metrics as well");
  flags.toggle("save-async", o.save_async, "write while training goes on");
  flags.value("--save-max-pending", o.save_max_pending, "saves that may wait to be written");
  flags.toggle("autoresume", o.autoresume, "continue from the newest good checkpoint");
  flags.toggle("autoresume-may-begin-anew", o.autoresume_may_begin_anew,
               "begin anew even if the run has whole checkpoints that cannot be continued");
}

void add_machine(Flags flags, TrainerOptions& o) {
  flags.optional_text("--device", o.device, "cpu or gpu");
  flags.optional_text("--precision", o.precision, "fp32, amp_fp16 or amp_bf16");
  flags.microbatch_size("--device-train-microbatch-size", o.device_train_microbatch_size,
                        "samples at a time, or auto; none: the whole batch");
  flags.toggle("accumulate-train-batch-on-tokens", o.accumulate_train_batch_on_tokens,
               "weigh microbatches by tokens");
  flags.optional_number("--seed", o.seed, "0 to 4294967295");
  flags.toggle("deterministic-mode", o.deterministic_mode, "refuse nondeterministic kernels");
  flags.optional_toggle("allow-tf32", o.allow_tf32, "round float32 products on a GPU to TF32");
  flags.toggle("cudnn-benchmark", o.cudnn_benchmark, "let cuDNN choose the fastest algorithms");
  flags.seconds("--dist-timeout", o.dist_timeout, "how long a process waits for the others");
  flags.value("--ddp-sync-strategy", o.ddp_sync_strategy,
              "single_auto_sync, multi_auto_sync or forced_sync");
  flags.parallelism("--parallelism-config", o.parallelism_config,
                    "shards the state over the ranks; a field of FSDPConfig, such as "
                    "state_dict_type=sharded; may be repeated");
  flags.deepspeed("--deepspeed-config", o.deepspeed_config,
                  "ZeRO's stage: every rank saves a tar of its own");
  flags.toggle("handle-signals", o.handle_signals, "SIGTERM: save and stop; SIGUSR2: save");
  flags.value("--interrupted-exit-code", o.interrupted_exit_code, "exit code after such a stop");
}

}  // namespace

void add_trainer_flags(CLI::App& app, TrainerOptions& options) {
  auto* group = app.add_option_group("Trainer", "the Trainer's options");
  const Flags flags(*group);
  add_training(flags, options);
  add_loading(flags, options);
  add_saving(flags, options);
  add_machine(flags, options);
}

}  // namespace examples
