package main

import "fmt"

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help says how to install the script.
func (completionCmd) Help() string {
	return "Install it by the line of your shell:\n" + helpTable([][2]string{
		{"bash", "source <(khop completion bash)"}, {"zsh", "source <(khop completion zsh)"},
		{"fish", "khop completion fish > ~/.config/fish/completions/khop.fish"}})
}

// completionScripts make a shell ask the program itself, which answers where COMP_LINE is set (see run). Where it has
// no answer, the shell completes names of files.
var completionScripts = map[string]string{
	"bash": "complete -o default -C khop khop",
	"zsh":  "autoload -U +X bashcompinit && bashcompinit\ncomplete -o default -C khop khop",
	"fish": `function __khop_complete
    set -lx COMP_LINE (commandline -cp)
    test -z (commandline -ct)
    and set COMP_LINE "$COMP_LINE "
    khop
end
complete -c khop -a "(__khop_complete)"`,
}

// Run prints the script.
func (c *completionCmd) Run(env *environment) error {
	_, err := fmt.Fprintln(env.stdout, completionScripts[c.Shell])
	return err
}
