// The shared library exports all that is declared in `namespace CAIRN_PUBLIC cairn`. The public
// headers declare everything there; the rest is compiled with -fvisibility=hidden.
#pragma once

#define CAIRN_PUBLIC [[gnu::visibility("default")]]
