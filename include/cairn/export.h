// What the shared library exports: everything that is declared in `namespace CAIRN_PUBLIC cairn`,
// as the public headers do. The rest of the library is compiled with -fvisibility=hidden.
#pragma once

#define CAIRN_PUBLIC [[gnu::visibility("default")]]
