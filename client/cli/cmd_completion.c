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

/* A text inside single quotes, with the characters of `escaped` behind a backslash. zsh and fish differ in how a single
 * quote is written: zsh closes, writes \\' and opens again, fish takes the backslash inside. */
static void quoted(const char *text, const char *escaped, const char *single_quote)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            fputs(single_quote, stdout);
        } else {
            if (strchr(escaped, *text) != NULL) {
                putchar('\\');
            }
            putchar(*text);
        }
    }
}

static void zsh_text(const char *text)
{
    quoted(text, "[]:\\", "'\\''");
}

static void fish_text(const char *text)
{
    quoted(text, "\\", "\\'");
}

/* One line of _arguments: '(-o --output)'{-o,--output}'[help]:DIR:_files'. */
static void zsh_option(const struct cli_option_row *o)
{
    const char *action = strcmp(o->value, "DIR") == 0 ? "_files -/" : strcmp(o->value, "FILE") == 0 ? "_files" : " ";
    fputs("                ", stdout);
    if (o->repeatable) {
        fputs("'*'", stdout);
    } else if (o->short_name[0] != '\0') {
        printf("'(%s %s)'", o->short_name, o->long_name);
    }
    if (o->short_name[0] != '\0') {
        printf("{%s,%s}'[", o->short_name, o->long_name);
    } else {
        printf("%s'[", o->long_name);
    }
    zsh_text(o->help);
    if (o->value[0] != '\0') {
        fputs("]:", stdout);
        zsh_text(o->value);
        printf(":%s' \\\n", action);
    } else {
        fputs("]' \\\n", stdout);
    }
}

static void zsh_program(enum cli_program program)
{
    printf("_%s() {\n    local -a commands=(\n", program == CLI_EVERYO ? "everyo_tool" : "everyo_submit");
    for (int i = 0; i < CLI_N_COMMANDS; i++) {
        if (cli_commands[i].program == program) {
            printf("        '%s:", cli_commands[i].name);
            zsh_text(cli_commands[i].summary);
            fputs("'\n", stdout);
        }
    }
    puts("    )\n    local word command=\n    for word in ${words[2,CURRENT-1]}; do\n"
         "        if (( ${commands[(I)$word:*]} )); then\n            command=$word\n            break\n        fi\n"
         "    done\n    case $command in");
    for (int i = 0; i < CLI_N_COMMANDS; i++) {
        const struct cli_command_row *c = &cli_commands[i];
        if (c->program == program) {
            printf("        %s)\n            _arguments \\\n", c->name);
            for (int k = 0; k < CLI_N_OPTIONS; k++) {
                if ((c->options & (1u << k)) != 0) {
                    zsh_option(&cli_options[k]);
                }
            }
            puts("                '*:argument:_files' ;;");
        }
    }
    printf("        *)\n            _describe command commands\n%s    esac\n}\n",
           program == CLI_SUBMIT ? "            _files -g '*.yaml'\n" : "");
}

static void zsh_script(void)
{
    puts("#compdef everyo everyo-submit");
    zsh_program(CLI_EVERYO);
    zsh_program(CLI_SUBMIT);
    puts("if [[ $service == everyo-submit ]]; then\n    _everyo_submit \"$@\"\nelse\n    _everyo_tool \"$@\"\nfi");
}

static void fish_option(const struct cli_command_row *c, const struct cli_option_row *o)
{
    printf("complete -c %s -n '__fish_seen_subcommand_from %s' -l %s", cli_program_name(c->program), c->name,
           o->long_name + 2);
    if (o->short_name[0] != '\0') {
        printf(" -s %s", o->short_name + 1);
    }
    printf("%s -d '", o->value[0] != '\0' ? " -r" : "");
    fish_text(o->help);
    puts("'");
}

static void fish_script(void)
{
    for (int i = 0; i < CLI_N_COMMANDS; i++) {
        const struct cli_command_row *c = &cli_commands[i];
        printf("complete -c %s -n __fish_use_subcommand -a %s -d '", cli_program_name(c->program), c->name);
        fish_text(c->summary);
        puts("'");
        for (int k = 0; k < CLI_N_OPTIONS; k++) {
            if ((c->options & (1u << k)) != 0) {
                fish_option(c, &cli_options[k]);
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
