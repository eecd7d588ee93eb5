// A store with options that are given by name: Composer's backend_kwargs.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "cairn/storage/backend_kwargs.h"
#include "cairn/storage/libcloud.h"
#include "cairn/storage/object_store.h"

namespace cairn {

// The store of a bucket ("s3://bucket"), whose names are the URIs of that bucket, with options in
// place of what the environment says: the arguments of Composer's store of that scheme. UsageError
// for an option that this scheme's store does not have, by its name, and for a value that is none.
std::shared_ptr<ObjectStore> store_with_kwargs(const std::string& bucket_uri,
                                               const BackendKwargs& kwargs);

// The options of a libcloud:// store, from the same arguments. Options of provider_kwargs stand
// among the others.
LibcloudOptions libcloud_options(const std::string& bucket_uri,
                                 const std::map<std::string, std::string>& kwargs);

}  // namespace cairn
