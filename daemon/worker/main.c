/* everyod-worker: computes for everyod. Started by it, with a control socket as descriptor 3. */
#include "daemon/worker/control.h"
#include "daemon/worker/worker_run.h"
#include "proto/base/text.h"
#include "proto/version.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

static int usage(const char *problem)
{
    fprintf(stderr,
            "everyod-worker: %s\n"
            "everyod-worker is started by everyod:\n"
            "  everyod-worker --state-dir DIR (--device NAME | --job ID) [--threads N] [--memory-limit BYTES]\n",
            problem);
    return eo_code_exit(EO_E_USAGE);
}

static const char *value_of(int argc, char **argv, const char *name)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], name) == 0) {
            return argv[i + 1];
        }
    }
    return NULL;
}

static bool parse(int argc, char **argv, struct worker *w)
{
    const char *threads = value_of(argc, argv, "--threads");
    const char *memory = value_of(argc, argv, "--memory-limit");
    int64_t n = 0;
    w->state_dir = value_of(argc, argv, "--state-dir");
    w->device_name = value_of(argc, argv, "--device");
    w->job = value_of(argc, argv, "--job");
    if (argc % 2 == 0 || !w->state_dir || (w->device_name != NULL) == (w->job != NULL)) {
        return false;
    }
    if (threads && (!eo_parse_i64(threads, &n) || n < 0 || n > 4096)) {
        return false;
    }
    w->n_threads = (int)n;
    return !memory || eo_parse_size(memory, &w->memory_limit_bytes);
}

static bool has_control(void)
{
    int type = 0;
    socklen_t size = sizeof(type);
    return getsockopt(CONTROL_FD, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
}

int main(int argc, char **argv)
{
    static struct worker worker;
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("everyod-worker %s\n", eo_build());
        return 0;
    }
    if (!parse(argc, argv, &worker)) {
        return usage("the command line is not valid");
    }
    if (!has_control()) {
        return usage("descriptor 3 is no control socket");
    }
    /* A second net under the control socket: nothing computes for a daemon that is gone. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN); /* Ctrl-C reaches the whole group; everyod decides what happens to workers */
    signal(SIGHUP, SIG_IGN);
    return worker_run(&worker);
}
