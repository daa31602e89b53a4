/* A secret of this user, on this boot, that no cage can read: it is no file, so nothing that is granted reaches it.
 *
 * It is a key in the user's keyring. A full cage is in a user namespace of its own, and so has another user keyring;
 * and every seccomp profile refuses keyctl, add_key and request_key. A session need not hold the user's keyring (su,
 * cron), and what is not held cannot be read: the search links the key into the process keyring, which ends at the next
 * exec. */
#include <errno.h>
#include <linux/keyctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "secret.h"

static const char type[] = "user", description[] = "pysandbox:plans";

static long find(void) {
    return syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, type, description, KEY_SPEC_PROCESS_KEYRING);
}

/* Two that come here at once both add it; the later secret stays, and what the earlier signed is not believed. */
static int make(void) {
    uint8_t fresh[PSB_SECRET_SIZE];
    if (getrandom(fresh, sizeof fresh, 0) != (ssize_t)sizeof fresh) return -EIO;
    if (syscall(SYS_add_key, type, description, fresh, sizeof fresh, KEY_SPEC_USER_KEYRING) < 0) return -errno;
    return 0;
}

int psb_secret(uint8_t *secret) {
    long key = find();
    if (key < 0) {
        const int failed = make();
        if (failed) return failed;
        key = find();
    }
    if (key < 0) return -errno;
    if (syscall(SYS_keyctl, KEYCTL_READ, key, secret, (size_t)PSB_SECRET_SIZE) != PSB_SECRET_SIZE) return -EIO;
    return 0;
}
