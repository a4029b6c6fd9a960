package option

import (
	"errors"
	"fmt"
	"strings"
	"sync"
)

// Text is an error, or a part of one, that names options without being about one: what to do, for example.
type Text struct {
	format string
	args   []any
	once   sync.Once // an error among many that wrap each other is asked again by each: its text is made once
	inGo   string
}

// Textf returns a text. Arguments may be a Name, or an error for %w.
func Textf(format string, args ...any) *Text { return &Text{format: format, args: args} }

// Error returns the text with the names in Go.
func (t *Text) Error() string {
	t.once.Do(func() { t.inGo = said(t.format, t.args, nil) })
	return t.inGo
}

// In returns the text with a door's names of options.
func (t *Text) In(spell func(Name) string) string { return said(t.format, t.args, spell) }

// Unwrap returns the errors among the arguments.
func (t *Text) Unwrap() []error { return errorsOf(t.args) }

// With returns an error that has a text beside its own, such as the remedy that another error says with it.
func With(err error, text *Text) error { return &beside{err, text} }

type beside struct {
	error
	text *Text
}

func (b *beside) Unwrap() []error { return []error{b.error, b.text} }

// speller is an error whose text names options.
type speller interface {
	In(spell func(Name) string) string
}

// Spell returns what an error says, with a door's names of options wherever in it they stand.
func Spell(err error, spell func(Name) string) string {
	if e, ok := err.(speller); ok {
		return e.In(spell)
	}
	return respell(err.Error(), err, spell)
}

// respell puts a door's names into what an error, or one that it wraps, says in a text.
func respell(text string, err error, spell func(Name) string) string {
	switch e := err.(type) {
	case speller:
		return strings.Replace(text, err.Error(), e.In(spell), 1)
	case interface{ Unwrap() error }:
		return respell(text, e.Unwrap(), spell)
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			text = respell(text, part, spell)
		}
	}
	return text
}

// inGo spells an option as its field.
func inGo(n Name) string {
	if n.Field == "" {
		return n.Option
	}
	return n.Field
}

// said fills in a text, in which arguments may be names of options. A nil spell is that of Go.
func said(format string, args []any, spell func(Name) string) string {
	filled := make([]any, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case Name:
			if filled[i] = inGo(a); spell != nil {
				filled[i] = spell(a)
			}
		case error:
			if filled[i] = a; spell != nil {
				filled[i] = errors.New(Spell(a, spell))
			}
		default:
			filled[i] = a
		}
	}
	return fmt.Errorf(format, filled...).Error()
}

// errorsOf returns the errors among arguments.
func errorsOf(args []any) (all []error) {
	for _, a := range args {
		if err, ok := a.(error); ok {
			all = append(all, err)
		}
	}
	return all
}
