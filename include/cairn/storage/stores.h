// From a URI to the store that it names: "s3://bucket/run/ep1.pt" is the name "run/ep1.pt" in the
// bucket's store. Every function that takes a place takes one: save(), load(), find_latest(), the
// Trainer's folders, the tool.
//
//   register_object_store("mystore", [](const std::string& root) {   // "mystore://host"
//     return std::make_shared<MyStore>(root);
//   });
//   save(value, "mystore://host/run/ep1.pt");
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cairn/storage/object_store.h"

namespace cairn {

// Makes the store of all names below `root`: "s3://bucket" of "s3://bucket/a/b", "dbfs:" of
// "dbfs:/a/b". The scheme is in lower case; the rest is as it was given. Called for each use of a
// place, from any thread: one that is costly to make is kept by the factory.
using ObjectStoreFactory = std::function<std::shared_ptr<ObjectStore>(const std::string& root)>;

// Gives a scheme ("s3", in lower case) a store of the program's own, also in place of one of
// cairn's. Before the first use of such a place. UsageError for what is no scheme.
void register_object_store(const std::string& scheme, ObjectStoreFactory factory);

// The schemes that there are stores for, sorted.
std::vector<std::string> object_store_schemes();

// The store of a place: that takes the place's whole URI, and everything below it, as names.
// local_store() for a path. UnsupportedError for a scheme without a store.
std::shared_ptr<ObjectStore> object_store_of(const std::string& place);

}  // namespace cairn
