package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help says how to install the script.
func (completionCmd) Help() string {
	return `bash: source <(khop completion bash)
zsh:  khop completion zsh > "${fpath[1]}/_khop"
fish: khop completion fish > ~/.config/fish/completions/khop.fish`
}

// Run prints a completion script made from the command line's own description.
func (c *completionCmd) Run(env *environment) error {
	write := map[string]func(io.Writer, []commandWords){"bash": writeBash, "zsh": writeZsh, "fish": writeFish}[c.Shell]
	var out strings.Builder
	write(&out, words(env.model))
	_, err := io.WriteString(env.stdout, out.String())
	return err
}

// commandWords is what can follow one command.
type commandWords struct {
	name, help string
	flags      []flagWords
	values     []string // fixed values of the first positional argument; none where it is a path or free text
	paths      bool     // the positional arguments are paths
}

type flagWords struct {
	name, help string
	values     []string
	takesValue bool
}

func words(model *kong.Application) []commandWords {
	var all []commandWords
	for _, n := range model.Children {
		if n.Hidden {
			continue
		}
		c := commandWords{name: n.Name, help: oneLine(n.Help)}
		for i, p := range n.Positional {
			if p.Enum == "" {
				c.paths = true
			} else if i == 0 {
				c.values = p.EnumSlice()
			}
		}
		for _, f := range n.Flags {
			if !f.Hidden {
				c.flags = append(c.flags, flagOf(f))
			}
		}
		c.flags = append(c.flags, flagOf(model.HelpFlag))
		all = append(all, c)
	}
	return all
}

func flagOf(f *kong.Flag) flagWords {
	w := flagWords{name: f.Name, help: oneLine(f.Help), takesValue: !f.IsBool()}
	if f.Enum != "" {
		w.values = f.EnumSlice()
	}
	return w
}

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	return strings.NewReplacer(`'`, "", `"`, "", "`", "", "[", "(", "]", ")", "$", "", `\`, "", ":", " -").Replace(s)
}

func writeBash(w io.Writer, cmds []commandWords) {
	var names []string
	for _, c := range cmds {
		names = append(names, c.name)
	}
	fmt.Fprintf(w, `# bash completion for khop
_khop() {
    local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" command="" i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "${COMP_WORDS[i]}" in -*) ;; *) command="${COMP_WORDS[i]}"; break ;; esac
    done
    COMPREPLY=()
    if [[ -z $command ]]; then
        COMPREPLY=($(compgen -W "%s --help" -- "$cur"))
        return
    fi
    case "$command $prev" in
`, strings.Join(names, " "))
	for _, c := range cmds {
		for _, f := range c.flags {
			if len(f.values) > 0 {
				fmt.Fprintf(w, "        '%s --%s') COMPREPLY=($(compgen -W \"%s\" -- \"$cur\")); return ;;\n", c.name, f.name, strings.Join(f.values, " "))
			}
		}
	}
	fmt.Fprint(w, "    esac\n    case \"$command\" in\n")
	for _, c := range cmds {
		choice := append([]string(nil), c.values...)
		for _, f := range c.flags {
			choice = append(choice, "--"+f.name)
		}
		files := ""
		if c.paths {
			files = ` [[ $cur == -* ]] || COMPREPLY+=($(compgen -f -- "$cur"));`
		}
		fmt.Fprintf(w, "        %s) COMPREPLY=($(compgen -W \"%s\" -- \"$cur\"));%s ;;\n", c.name, strings.Join(choice, " "), files)
	}
	fmt.Fprint(w, "    esac\n}\ncomplete -o filenames -F _khop khop\n")
}

func writeZsh(w io.Writer, cmds []commandWords) {
	fmt.Fprint(w, "#compdef khop\n_khop() {\n    local -a commands\n    commands=(\n")
	for _, c := range cmds {
		fmt.Fprintf(w, "        '%s:%s'\n", c.name, c.help)
	}
	fmt.Fprint(w, "    )\n    if (( CURRENT == 2 )); then\n        _describe command commands\n        return\n    fi\n    case \"$words[2]\" in\n")
	for _, c := range cmds {
		fmt.Fprintf(w, "        %s) _arguments", c.name)
		for _, f := range c.flags {
			switch {
			case len(f.values) > 0:
				fmt.Fprintf(w, " \\\n            '--%s[%s]:value:(%s)'", f.name, f.help, strings.Join(f.values, " "))
			case f.takesValue:
				fmt.Fprintf(w, " \\\n            '--%s[%s]:value: '", f.name, f.help)
			default:
				fmt.Fprintf(w, " \\\n            '--%s[%s]'", f.name, f.help)
			}
		}
		if len(c.values) > 0 {
			fmt.Fprintf(w, " \\\n            '2:value:(%s)'", strings.Join(c.values, " "))
		}
		if c.paths {
			fmt.Fprint(w, " \\\n            '*:path:_files'")
		}
		fmt.Fprint(w, " ;;\n")
	}
	fmt.Fprint(w, "    esac\n}\n[[ $zsh_eval_context[-1] == loadautofunc ]] && _khop \"$@\" || compdef _khop khop\n")
}

func writeFish(w io.Writer, cmds []commandWords) {
	fmt.Fprint(w, "# fish completion for khop\n")
	for _, c := range cmds {
		fmt.Fprintf(w, "complete -c khop -f -n __fish_use_subcommand -a %s -d '%s'\n", c.name, c.help)
	}
	for _, c := range cmds {
		here := fmt.Sprintf("complete -c khop -n '__fish_seen_subcommand_from %s'", c.name)
		if !c.paths {
			fmt.Fprintf(w, "%s -f\n", here)
		}
		if len(c.values) > 0 {
			fmt.Fprintf(w, "%s -a '%s'\n", here, strings.Join(c.values, " "))
		}
		for _, f := range c.flags {
			value := ""
			if len(f.values) > 0 {
				value = fmt.Sprintf(" -x -a '%s'", strings.Join(f.values, " "))
			} else if f.takesValue {
				value = " -r"
			}
			fmt.Fprintf(w, "%s -l %s%s -d '%s'\n", here, f.name, value, f.help)
		}
	}
}
