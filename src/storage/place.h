// From what users write to a store and a name in it: the one place that knows of URIs.
#pragma once

#include <memory>
#include <string>

#include "cairn/storage/object_store.h"

namespace cairn {

// The store in which `place` is a name: `given` when there is one, else object_store_of()
// (cairn/storage/stores.h).
std::shared_ptr<ObjectStore> store_of(const std::string& place,
                                      const std::shared_ptr<ObjectStore>& given);

// A place as messages may say it: of a web server's, and of one without a store, not the user, the
// password and the query: "https://host/a.pt?...". The store of `place` takes it for `place`.
std::string shown_place(const std::string& place);

// Why there is no store for a place: one line. Empty when there is one, as far as that can be told
// without asking anybody.
std::string place_problem(const std::string& place);
// The same of a place that is to be written to: of some servers things can only be loaded.
std::string writing_problem(const std::string& place);

// That `name`, of something in a folder, is no URI: it would become a folder called "s3:".
// `called`: what it is, for the message. UnsupportedError when there is no store for it, else
// UsageError.
void check_is_name(const std::string& name, const std::string& called);

}  // namespace cairn
