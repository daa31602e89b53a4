/* count_fds (csrc/init/orders.c): it never counts more than was received or there is room for. Input: the size that
 * the kernel gives, 8 bytes, and the control message. */
#include "../init/init.h"
#include "require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct control control = {0};
    uint64_t said;
    size_t received;
    int count;
    if (size < sizeof said) return 0;
    memcpy(&said, data, sizeof said);
    received = size - sizeof said < sizeof control ? size - sizeof said : sizeof control;
    memcpy(&control, data + sizeof said, received);
    count = count_fds(&control, said);
    REQUIRE(count >= 0 && count <= PSB_MAX_FDS + 3);
    REQUIRE(!count || offsetof(struct control, fds) + (size_t)count * sizeof control.fds[0] <= said);
    REQUIRE(!count || offsetof(struct control, fds) + (size_t)count * sizeof control.fds[0] <= control.size);
    return 0;
}
