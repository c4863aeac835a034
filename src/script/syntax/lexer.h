/* script/syntax/lexer.h -- Python's tokens, with indentation.
 *
 * A pull lexer: one token of lookahead in `cur`.  Lines join inside brackets and after a backslash;
 * blank and comment lines make no tokens; NEWLINE ends a logical line, INDENT and DEDENT bracket
 * blocks.  Tabs advance to multiples of 8.  A comment `# type: ...` is not a token: the token that
 * follows it has its range (for a comment at the end of a line that is the NEWLINE).
 *
 * Errors leave the session.  One thread at a time. */
#ifndef RUSH_SCRIPT_LEXER_H
#define RUSH_SCRIPT_LEXER_H

#include "base/session.h"

typedef enum token_kind {
#define TOKEN(name, text) TK_##name,
#define KEYWORD(name, text) TK_##name,
#define OPERATOR(name, text) TK_##name,
#include "script/syntax/tokens.def"
  N_TOKEN_KINDS
} token_kind;

typedef struct token {
  token_kind kind;
  uint32_t start, end;                 /* bytes of the source */
  uint32_t comment_start, comment_end; /* the type comment before it; equal: none */
} token;

#define LEXER_MAX_INDENTS 256
typedef struct lexer {
  session *s;
  const source *src;
  uint32_t pos, end;   /* the text read is src->text[pos, end) */
  uint32_t brackets;   /* open ( [ { */
  bool line_start;     /* true if the next token is the first of a logical line */
  uint32_t n_dedents;  /* DEDENTs still to be returned */
  uint32_t n_indents;
  uint32_t indents[LEXER_MAX_INDENTS]; /* columns of the open blocks; [0] is the outermost */
  token cur;
  uint32_t last_end;   /* end of the token before cur */
} lexer;

/* Begin to read src->text[start, end).  The column of `start` is the outermost indentation. */
void lexer_init(lexer *lx, session *s, const source *src, uint32_t start, uint32_t end);
/* Begin to read as if inside brackets: newlines and indentation are ignored. */
void lexer_init_inline(lexer *lx, session *s, const source *src, uint32_t start, uint32_t end);
/* Advance `cur`. */
void lexer_next(lexer *lx);
/* Advance past the DEDENT that closes the block of the INDENT in `cur`. */
void lexer_skip_block(lexer *lx);
/* Return the name of a kind in messages: "name", "'('" ... */
const char *token_kind_name(token_kind k);
/* Return a token's form in messages: its text, or its kind's name. */
const char *token_text(lexer *lx, const token *t);
static inline source_range token_range(const lexer *lx, const token *t)
{
  return (source_range){lx->src, t->start, t->end};
}

#endif
