/* `everyo demo` is `everyo-submit run` of the installed digits example. */
#include "client/cli/cli.h"
#include "client/cli/report.h"

#include <stdio.h>
#include <unistd.h>

int cmd_DEMO(const struct cli *cli)
{
    /* The source tree's copy serves a build that is not installed. */
    static const char *const places[] = {EO_DATADIR "/everyo/examples/digits.yaml", EO_EXAMPLES_DIR "/digits.yaml"};
    for (size_t i = 0; i < EO_COUNT_OF(places); i++) {
        if (access(places[i], R_OK) == 0) {
            struct cli run = *cli;
            run.program = CLI_SUBMIT;
            run.command = CLI_CMD_RUN;
            run.arguments[0] = places[i];
            run.n_arguments = 1;
            return cmd_RUN(&run);
        }
    }
    struct eo_error err = {0};
    EO_RAISE(&err, EO_E_NO_FILE, "the digits example is not installed: %s is missing", places[0]);
    eo_error_hint(&err, "Reinstall EveryO, or run `everyo-submit JOB.yaml` with a job of your own.");
    return report_failure(&err);
}
