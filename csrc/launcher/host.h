/* The functions of the host half that the launcher is linked with. */
#ifndef PSB_LAUNCHER_HOST_H
#define PSB_LAUNCHER_HOST_H

#include "../abi.h"
#include "../host/spawn/build.h"
#include "../host/spawn/messages.h"
#include "../host/spawn/null.h"
#include "../host/spawn/open_inside.h"
#include "../host/spawn/spawn.h"

#endif
