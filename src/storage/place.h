// From a user's text to a store and a name in it. Only this file interprets URIs.
#pragma once

#include <memory>
#include <string>

#include "cairn/storage/object_store.h"

namespace cairn {

// The store in which `place` is a name: `given` if it is not null, else object_store_of()
// (cairn/storage/stores.h).
std::shared_ptr<ObjectStore> store_of(const std::string& place,
                                      const std::shared_ptr<ObjectStore>& given);

// A place in a form that messages may contain. For web servers and unknown stores this form omits
// the user, the password and the query: "https://host/a.pt?...". The store of `place` accepts this
// form in place of `place`.
std::string shown_place(const std::string& place);

// One line that says why there is no store for a place. Empty if there is a store, as far as can be
// told without a request.
std::string place_problem(const std::string& place);
// Like place_problem(), for a place that is to be written to: some servers can only be read.
std::string writing_problem(const std::string& place);

// Checks that `name`, which names something in a folder, is no URI: a URI would become a folder
// called "s3:". `called` describes the name in the message. Throws UnsupportedError if there is no
// store for the URI, else UsageError.
void check_is_name(const std::string& name, const std::string& called);

}  // namespace cairn
