#include "client/cli/cli.h"

int main(int argc, char **argv)
{
    return cli_main(CLI_EVERYO, argc, argv);
}
