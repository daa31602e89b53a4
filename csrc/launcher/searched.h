/* Whether the directories that were searched hold the names that were found. */
#ifndef PSB_LAUNCHER_SEARCHED_H
#define PSB_LAUNCHER_SEARCHED_H

#include "kept.h"

int as_searched(const struct kept *kept);

#endif
