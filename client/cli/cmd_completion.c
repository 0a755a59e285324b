/* Completion scripts for both programs, written from the tables. */
#include "client/cli/cli.h"
#include "client/cli/report.h"

#include <string.h>

static void words(enum cli_program program, const char *separator)
{
    for (int i = 0; i < CLI_N_COMMANDS; i++) {
        if (cli_commands[i].program == program) {
            printf("%s%s", cli_commands[i].name, separator);
        }
    }
}

static void option_words(uint32_t mask)
{
    for (int i = 0; i < CLI_N_OPTIONS; i++) {
        if ((mask & (1u << i)) != 0) {
            printf("%s ", cli_options[i].long_name);
        }
    }
}

static void bash_program(enum cli_program program)
{
    const char *name = cli_program_name(program);
    const char *function = program == CLI_EVERYO ? "_everyo" : "_everyo_submit";
    printf("%s() {\n    local cur=${COMP_WORDS[COMP_CWORD]} cmd= w\n"
           "    for w in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n        case $w in\n",
           function);
    for (int i = 0; i < CLI_N_COMMANDS; i++) {
        if (cli_commands[i].program == program) {
            printf("            %s) cmd=$w; break ;;\n", cli_commands[i].name);
        }
    }
    fputs("        esac\n    done\n    case $cmd in\n", stdout);
    for (int i = 0; i < CLI_N_COMMANDS; i++) {
        if (cli_commands[i].program == program) {
            printf("        %s) w=\"", cli_commands[i].name);
            option_words(cli_commands[i].options);
            fputs("\" ;;\n", stdout);
        }
    }
    fputs("        *) w=\"", stdout);
    words(program, " ");
    printf("--host --help --version\" ;;\n    esac\n"
           "    COMPREPLY=($(compgen -W \"$w\" -- \"$cur\"))\n"
           "    [[ $cur == -* ]] || COMPREPLY+=($(compgen -f -- \"$cur\"))\n}\n"
           "complete -o filenames -F %s %s\n",
           function, name);
}

/* zsh runs bash completions through bashcompinit. */
static void zsh_script(void)
{
    puts("autoload -U +X bashcompinit && bashcompinit");
    bash_program(CLI_EVERYO);
    bash_program(CLI_SUBMIT);
}

static void fish_script(void)
{
    for (int i = 0; i < CLI_N_COMMANDS; i++) {
        const struct cli_command_row *c = &cli_commands[i];
        const char *program = cli_program_name(c->program);
        printf("complete -c %s -n __fish_use_subcommand -a %s -d '%s'\n", program, c->name, c->summary);
        for (int k = 0; k < CLI_N_OPTIONS; k++) {
            const struct cli_option_row *o = &cli_options[k];
            if ((c->options & (1u << k)) != 0) {
                printf("complete -c %s -n '__fish_seen_subcommand_from %s' -l %s%s%s%s -d '%s'\n", program, c->name,
                       o->long_name + 2, o->short_name[0] != '\0' ? " -s " : "",
                       o->short_name[0] != '\0' ? o->short_name + 1 : "", o->value[0] != '\0' ? " -r" : "", o->help);
            }
        }
    }
}

int cmd_COMPLETION(const struct cli *cli)
{
    const char *shell = cli->arguments[0];
    if (strcmp(shell, "bash") == 0) {
        bash_program(CLI_EVERYO);
        bash_program(CLI_SUBMIT);
    } else if (strcmp(shell, "zsh") == 0) {
        zsh_script();
    } else if (strcmp(shell, "fish") == 0) {
        fish_script();
    } else {
        struct eo_error err = {0};
        char quoted[100];
        EO_RAISE(&err, EO_E_USAGE, "no completion for the shell %s",
                 eo_quote(shell, strlen(shell), quoted, sizeof quoted));
        eo_error_hint(&err, "There is bash, zsh and fish.");
        return report_failure(&err);
    }
    return 0;
}
