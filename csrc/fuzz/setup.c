/* check_setup and check_signal (csrc/init/orders.c): what is accepted is as long as it says. Input: the message. */
#include "../init/init.h"
#include "require.h"

/* As take_setup does: the filters lie behind the header, whole, and fit where they are copied to. */
static void copy_filter(const struct psb_setup *setup, size_t size) {
    static struct cage cage;
    const size_t filter_size = ((size_t)setup->filter_count + setup->late_count) * sizeof cage.filter[0];
    REQUIRE(filter_size <= sizeof cage.filter && size == sizeof *setup + filter_size);
    memcpy(cage.filter, setup + 1, filter_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    void *message = exact_copy(data, size);
    if (!check_setup(message, size)) copy_filter(message, size);
    if (!check_signal(message, size)) REQUIRE(size == sizeof(struct psb_signal));
    free(message);
    return 0;
}
