// A store with options that are given by name: Composer's backend_kwargs.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "cairn/storage/backend_kwargs.h"
#include "cairn/storage/libcloud.h"
#include "cairn/storage/object_store.h"

namespace cairn {

// Returns the store of a bucket ("s3://bucket"), in which names are the URIs of that bucket.
// `kwargs` are the arguments of Composer's store of that scheme, and replace settings of the
// environment. Throws UsageError, which names the argument, if the store has no such argument or
// cannot use the value.
std::shared_ptr<ObjectStore> store_with_kwargs(const std::string& bucket_uri,
                                               const BackendKwargs& kwargs);

// The options of a libcloud:// store, from the same arguments, including those in
// provider_kwargs.
LibcloudOptions libcloud_options(const std::string& bucket_uri,
                                 const std::map<std::string, std::string>& kwargs);

}  // namespace cairn
