/* START HERE for what the launcher does with a plan: the cage and, beside it, the permit (permit.c); the streams, the
 * order, the watch, the end. Until the command runs every failure leads back (-1), and Python does it all anew. */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../host/probe/seen.h"
#include "../host/spawn/idmap.h"
#include "errno_text.h"
#include "exit_codes.h"
#include "order.h"
#include "record.h"

#define LASTS_MS 100 /* a command that runs for longer gets a record, for `pysandbox ps` */
#define KILLED (BY_SIGNAL + SIGKILL)
#define GONE_MS 1000
#define KILL_PATIENCE_MS 10000

void say(const char *what, const char *text) {
    struct text line = {0};
    add_text(&line, "pysandbox: ");
    add_text(&line, what);
    add_text(&line, text);
    add_text(&line, "\n");
    if (!line.failed) (void)!write(2, line.bytes, line.size);
    free(line.bytes);
}

/* ---- the cage ---------------------------------------------------------------------------------------------------- */

/* A ULID: 48 bits of milliseconds since the epoch, 80 bits of chance, in Crockford's base 32. */
static int new_id(struct run *run) {
    static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    struct timespec now;
    unsigned __int128 number;
    uint8_t chance[10];
    int i;
    if (getrandom(chance, sizeof chance, 0) != sizeof chance) return -1;
    clock_gettime(CLOCK_REALTIME, &now);
    run->started = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    number = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    for (i = 0; i < 10; i++) number = number << 8 | chance[i];
    for (i = CAGE_ID - 1; i >= 0; i--, number >>= 5) run->trail.id[i] = alphabet[number & 31];
    return 0;
}

/* The host name shows the end of the id. */
static char *new_hostname(const struct run *run) {
    struct text name = {0};
    int i;
    add_text(&name, text_named(run->kept, PSB_TEXT_HOST_PREFIX));
    for (i = CAGE_ID - 8; i < CAGE_ID; i++) {
        const char letter = run->trail.id[i];
        const char small = letter >= 'A' ? (char)(letter + 'a' - 'A') : letter;
        add_bytes(&name, &small, 1);
    }
    add_whole(&name, "");
    return name.failed ? NULL : name.bytes;
}

static int open_cage(struct run *run) {
    struct psb_plan *plan = run->kept->plan;
    int init, result;
    if (plan->unrooted && (plan->idmap_fd = psb_make_idmap()) < 0) return -1;
    plan->hostname = new_hostname(run);
    if (!plan->hostname) return -1;
    if (open_cgroup(&run->cgroup, run->kept, run->trail.id)) return -1;
    plan->cgroup_fd = run->cgroup.fd;
    run->user = run->services.user = plan->unrooted ? (int)plan->outside_uid : 0;
    init = open(text_named(run->kept, PSB_TEXT_INIT), O_PATH | O_CLOEXEC);
    if (init < 0) return -1;
    result = psb_open_cage(plan, init, &run->cage);
    close(init);
    if (result) return -1;
    do
        result =
            psb_send(run->cage.control, table(run->kept, PSB_KEPT_SETUP), count_of(run->kept, PSB_KEPT_SETUP), NULL, 0);
    while (result == -EINTR);
    return result ? result : open_services(&run->services);
}

static int is_gone(const struct run *run, int patience) {
    struct pollfd one = {run->cage.pidfd, POLLIN, 0};
    const int64_t end = now_ms() + patience;
    int ready;
    do ready = poll(&one, 1, patience);
    while (ready < 0 && errno == EINTR && now_ms() < end);
    return ready > 0;
}

static void end_cage(struct run *run) {
    siginfo_t ignored;
    close(run->cage.control);
    run->cage.control = -1;
    if (!is_gone(run, GONE_MS)) {
        syscall(SYS_pidfd_send_signal, run->cage.pidfd, SIGKILL, NULL, 0);
        if (!is_gone(run, KILL_PATIENCE_MS)) return;
    }
    while (waitid(P_PIDFD, (id_t)run->cage.pidfd, &ignored, WEXITED | __WALL) < 0 && errno == EINTR) {}
    close(run->cage.pidfd);
    remove_record(run);
}

/* Returns when nothing of the cage is left: its end is that of the control socket. */
static void close_cage(struct run *run) {
    end_services(&run->services);
    if (run->cage.control >= 0) end_cage(run);
    close_cgroup(&run->cgroup);
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int read_report(const struct run *run, struct psb_report *report) {
    int result;
    do result = psb_read_report(run->report, report);
    while (result == -EINTR);
    return result;
}

static int order(struct run *run) {
    int ends[2], result;
    if (await_permit(&run->permit) || begin_services(&run->services) || pipe2(ends, O_CLOEXEC) < 0) return -1;
    run->report = ends[0];
    result = send_order(run, ends[1]);
    close(ends[1]);
    close_given(&run->streams);
    return result;
}

static int open_all(struct run *run) {
    const int wants_terminal = (run->kept->head->flags & PSB_KEPT_TERMINAL) != 0;
    if (open_cage(run)) return -1;
    psb_wake_hint(run->cage.control);
    return wants_terminal ? open_terminal(&run->streams, run->cage.pid, run->user)
                          : open_streams(&run->streams, run->user);
}

/* 0 when the command runs. One that does not is told of here as well, and then by Python. */
static int start(struct run *run) {
    struct psb_report *first = &run->services.started;
    int got;
    begin_permit(&run->permit);
    if (open_all(run) || order(run)) {
        (void)await_permit(&run->permit); /* what it has recorded has an end */
        if (is_given_up(&run->permit)) return -1;
        if (run->cage.error.step)
            record_failure(&run->trail, &run->cage.error);
        else
            record_end(&run->trail, NULL, NULL);
        return -1;
    }
    got = read_report(run, first);
    if (got == 1 && first->kind == PSB_REPORT_STARTED) return 0;
    record_end(&run->trail, got == 1 ? first : NULL, NULL);
    return -1;
}

static void warn_of_weakness(const struct kept *kept) {
    const uint32_t *row = table(kept, PSB_KEPT_WEAKER);
    size_t i;
    for (i = 0; i < count_of(kept, PSB_KEPT_WEAKER); i++) say("weaker: ", text_at(kept, row[i]));
}

/* Says of a failure what Python would; the exit code for it. */
static int fail_with(const char *about, int number, const char *hint) {
    struct text line = {0};
    add_text(&line, about);
    add_text(&line, " (");
    add_text(&line, errno_text(number));
    add_text(&line, ")");
    add_text(&line, hint);
    add_whole(&line, "");
    if (!line.failed) say("error: ", line.bytes);
    free(line.bytes);
    return OUR_FAILURE;
}

static int fail_to_record(const struct run *run, int number) {
    struct text about = {0};
    const char *hint = "; choose another place with PYSANDBOX_AUDIT or AuditLog(path)"; /* as audit/stream.py */
    int code;
    if (number == ENOSPC || number == EDQUOT)
        hint = "; free some space, or choose another place with PYSANDBOX_AUDIT or AuditLog(path)";
    if (number == EFBIG) hint = "; raise the limit on the size of files (ulimit -f)";
    add_text(&about, "audit: ");
    add_text(&about, text_named(run->kept, PSB_TEXT_AUDIT));
    add_whole(&about, " cannot be written");
    code = fail_with(about.failed ? "audit: cannot be written" : about.bytes, number, hint);
    free(about.bytes);
    return code;
}

/* What has appeared where nothing could be covered: room for a byte each, or NULL when there is nothing. */
static uint8_t *find_planted(const struct run *run, int has_report) {
    const size_t count = count_of(run->kept, PSB_KEPT_ABSENT);
    uint8_t *there = count ? calloc(count, 1) : NULL;
    if (!there) return NULL;
    if (!has_report) is_gone(run, GONE_MS);
    if (psb_appeared(table(run->kept, PSB_KEPT_ABSENT), count, run->trail.since, there)) return there;
    free(there);
    return NULL;
}

static void warn_of_planted(const struct run *run, const uint8_t *planted) {
    struct text sentence = {0};
    add_planted_sentence(&sentence, run->kept, planted, 0);
    add_whole(&sentence, "");
    if (!sentence.failed) say("warning: ", sentence.bytes);
    free(sentence.bytes);
}

/* Records it, and says what has appeared; -1 when it could not be recorded. */
static int tell_end(struct run *run, const struct psb_report *last) {
    uint8_t *planted = find_planted(run, last != NULL);
    const int failed = record_end(&run->trail, last, planted);
    if (failed) fail_to_record(run, -failed);
    if (planted && !failed) warn_of_planted(run, planted);
    free(planted);
    return failed ? -1 : 0;
}

/* The exit code, as a shell would see it; -1 when the end could not be recorded. */
static int end_code(struct run *run) {
    struct psb_report last;
    const int has_report = read_report(run, &last) == 1;
    if (tell_end(run, has_report ? &last : NULL)) return -1;
    if (!has_report) return KILLED; /* cage-init was killed, and everything with it */
    run->no_route = last.no_route != 0;
    if (last.timed_out) return OUT_OF_TIME;
    run->how = how_failed(last.status);
    return WIFSIGNALED(last.status) ? 128 + WTERMSIG(last.status) : WEXITSTATUS(last.status);
}

/* Not success, where not all that it wrote or read arrived. */
static int code_after_loss(const struct streams *streams, int code) {
    const char *what = "the command's input could not be read";
    struct text line = {0};
    int number = 0, i;
    for (i = 0; i < streams->n_relays && !number; i++)
        if ((number = streams->relays[i].failed)) what = streams->relays[i].what;
    if (!number) number = streams->feed.failed;
    if (!number) return code;
    add_text(&line, "[Errno ");
    add_number(&line, (uint64_t)number);
    add_text(&line, "] ");
    add_text(&line, what);
    add_text(&line, ": ");
    add_text(&line, errno_text(number));
    add_whole(&line, "");
    if (!line.failed) say("error: ", line.bytes);
    free(line.bytes);
    return code ? code : OUR_FAILURE;
}

static void flush_streams(struct run *run) {
    let_through(&run->attendance);
    end_input(&run->streams);
    while (show(&run->attendance.terminal) > 0) {}
}

/* The end of a run in which Python has a part: it records that, and says why it failed. */
static int end_with_python(struct run *run) {
    const struct attendance *attendance = &run->attendance;
    struct psb_report last;
    const int has_report = read_report(run, &last) == 1;
    const enum kill_reason why = run->services.watch.kill_reason;
    struct ending ending = {why ? (int32_t)why : (int32_t)run->trail.blame, attendance->cause, attendance->insisted, 0};
    int code;
    flush_streams(run);
    leave_raw_mode();
    run->told = 1;
    ending.lost = code_after_loss(&run->streams, 0);
    code = let_python_end(&run->services, &ending, has_report ? &last : NULL);
    if (code >= 0) return code;
    say("error: ", "what served the cage has ended, and what it would have told of the command is lost");
    tell_end(run, has_report ? &last : NULL);
    return OUR_FAILURE;
}

/* Nobody served the cage any more, and so it was killed. */
static int end_unserved(struct run *run) {
    run->trail.blame = BLAME_CANCELLED;
    say("error: ", "what served the cage has ended, and the cage with it");
    end_code(run);
    flush_streams(run);
    return OUR_FAILURE;
}

static int attend_to_end(struct run *run) {
    struct attendance *attendance = &run->attendance;
    const struct psb_kept *head = run->kept->head;
    int own, code;
    attendance->services = &run->services;
    attendance->streams = &run->streams;
    attendance->report = run->report;
    attendance->control = run->cage.control;
    attendance->trail = &run->trail;
    attendance->cause = NO_CAUSE;
    attendance->grace_ms = head->grace_ms;
    if (head->timeout_ns) attendance->deadline = now_ms() + (int64_t)((head->timeout_ns + 999999) / 1000000);
    attendance->later = now_ms() + LASTS_MS;
    attendance->act_later = write_record;
    attendance->argument = run;
    begin_terminal(&attendance->terminal, run->streams.terminal);
    attend(attendance);
    end_watch(&run->services.watch);
    if (has_refused(&run->cgroup)) call_python(&run->services); /* it knows what to say of that */
    if (run->services.broken) return end_unserved(run);
    if (run->services.python) return end_with_python(run);
    own = end_code(run);
    if (own < 0) return OUR_FAILURE;
    if (attendance->cause != NO_CAUSE) run->how = FAILED_ENDED;
    flush_streams(run);
    own = code_after(attendance, own);
    code = code_after_loss(&run->streams, own);
    if (code != own) run->how = FAILED_ENDED;
    return code;
}

static int serve(struct run *run) {
    const int result = serve_input(&run->streams);
    return result ? result : serve_output(&run->streams);
}

static void prepare_permit(struct run *run) {
    run->permit.kept = run->kept;
    run->permit.argv = run->argv;
    run->permit.trail = &run->trail;
}

static void prepare_services(struct run *run) {
    struct services *services = &run->services;
    services->listener = services->channel = services->report = -1;
    services->watch.noticed = services->watch.memory.proc = -1;
    services->kept = run->kept;
    services->cage = &run->cage;
    services->trail = &run->trail;
    services->cgroup = &run->cgroup;
}

int run_kept(struct run *run) {
    int code, failed;
    run->records = run->report = -1;
    run->cage.control = run->cgroup.parent = run->cgroup.fd = -1;
    prepare_permit(run);
    prepare_services(run);
    if (new_id(run) || take_signals()) return -1;
    if (start(run)) {
        close_cage(run);
        if (!is_given_up(&run->permit)) close_trail(&run->trail);
        give_back_signals(); /* the one for which it was given up ends us here */
        return -1;
    }
    warn_of_weakness(run->kept);
    failed = serve(run);
    if (failed) {
        code = fail_with("the command's streams could not be served", -failed, "");
        record_end(&run->trail, NULL, NULL);
    } else {
        if (run->streams.terminal >= 0) enter_raw_mode();
        code = attend_to_end(run);
        leave_raw_mode();
    }
    close_cage(run);
    close_trail(&run->trail);
    return code;
}
