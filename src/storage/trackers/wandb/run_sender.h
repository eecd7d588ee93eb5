// A run on W&B's server, with the requests of W&B's own clients.
#pragma once

#include <functional>
#include <string>

namespace cairn::wandb {

// Sends entries, by one thread. An entry is JSON with the texts "entity" ("": the key's owner),
// "project" and "run" (the run's id), and one of:
//
//   "fields"  variables of W&B's mutation UpsertBucket, like "displayName". The run and its project
//             are made if they do not exist.
//   "stream"  lines of the run's files, or the run's end. They replace lines that the server has at
//             that offset.
//
// run_sender() takes the key and the server from the environment, and contacts no server. It
// throws UsageError if there is no key or the URL is invalid, and UnsupportedError without network
// stores. The function throws StorageError, retryable() if the same entry may be sent later, and
// CorruptError for a text that is no entry.
std::function<void(const std::string& entry)> run_sender();

}  // namespace cairn::wandb
