// Finds the store that a URI names: "s3://bucket/run/ep1.pt" is the name "run/ep1.pt" in the
// bucket's store. Every function that takes a place accepts URIs: save(), load(), find_latest(),
// the Trainer's folders, the tool.
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

#include "cairn/export.h"
#include "cairn/storage/object_store.h"

namespace CAIRN_PUBLIC cairn {

// Makes the store for all names below `root`: "s3://bucket" for "s3://bucket/a/b", "dbfs:" for
// "dbfs:/a/b". The scheme is in lower case; the rest is unchanged. Called for each use of a place,
// from any thread. A factory whose stores are costly to make keeps its stores.
using ObjectStoreFactory = std::function<std::shared_ptr<ObjectStore>(const std::string& root)>;

// Registers a store of the program's own for a scheme ("s3", in lower case), also in place of
// cairn's store for that scheme. Call it before a place with this scheme is first used. Throws
// UsageError for an invalid scheme.
void register_object_store(const std::string& scheme, ObjectStoreFactory factory);

// The schemes that have stores, sorted.
std::vector<std::string> object_store_schemes();

// The store of a place. Names in this store are the place's whole URI and all URIs below it.
// Returns local_store() for a path. Throws UnsupportedError for a scheme without a store.
std::shared_ptr<ObjectStore> object_store_of(const std::string& place);

}  // namespace cairn
