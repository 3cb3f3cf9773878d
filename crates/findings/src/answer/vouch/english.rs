//! English words that may stand in an approving answer.
//!
//! Before you add a word, try to build a sentence with it that an approval must not carry. Words for
//! defects, for parts of a whole, for time, people and places, and every word that compares, limits
//! or asks stay out.

use super::Vocabulary;

pub(super) const ENGLISH: Vocabulary = Vocabulary {
    good: "
good, great, nice, neat, solid, excellent, clean, correct, proper, sound, fine, accurate, focused, sensible, reasonable, appropriate, readable, consistent, idiomatic, elegant, robust, precise, thorough, comprehensive, complete, maintainable, straightforward, concise, perfect, lovely, beautiful, safe, secure, efficient, tidy, clear, sufficient, adequate, meaningful, reversible, bounded, configurable, documented, tested, verified, confirmed, covered, handled, resolved, addressed, implemented, met, satisfied, fulfilled, green, lgtm, approved, approve, ok, okay, yes, thanks, thank you, kudos, helpful, polished,
backwards compatible, backward compatible, well tested, well structured, well written, well done, well named, well documented, well covered, well designed, well organised, well organized, well factored, well scoped, well commented, well handled, works well, reads well, works, compiles, typechecks, type checks, passes, passed, is passing, are passing, tests pass, tests all pass, checks pass, checks all pass, all pass, they pass, both pass, linters pass, suites pass, builds pass, criteria pass,
covers, cover, matches, match, follows the conventions, follows the module's conventions, follows the project's conventions, follows the existing conventions, follows the existing patterns, follows the existing style, follows the existing structure, follows existing conventions, follows existing patterns, follows the style, follows the guidelines, follows the specification, follows the spec, follows the ticket, follow the conventions, follow the module's conventions, follow the project's conventions, follow the existing conventions, follow the existing patterns, follow the existing style, follow the existing structure, follow existing conventions, follow existing patterns, follow the style, follow the guidelines, follow the specification, follow the spec, follow the ticket, meets, meet, satisfies, satisfy, fulfils, fulfills, fulfil, fulfill, adheres, complies, respects, improves, simplifies, explains, explain,
as expected, as specified, as requested, as described, as documented, as intended, as asked, as required,
easy to read, easy to follow, easy to understand, easy to maintain, easy to review, easy to test,
nicely, neatly, cleanly, correctly, properly, clearly, carefully, thoroughly, accurately, consistently, safely, fully, perfectly, exactly, successfully,
covered by, tested by, verified by, backed by, proven by, shown by, covered with, tested with,
small and focused, small focused, small change, small diff, small patch, small fix, minimal change, minimal diff, minimal patch, minimal fix, simple change, simple fix, simple solution, focused change, change is small, diff is small, change is minimal, diff is minimal, code is simple, implementation is simple, solution is simple,
correct fix, good fix, nice fix, clean fix, right fix, right approach, right place, right choice, right solution, nice simplification, good simplification, good use of, nice use of, good separation, clean separation, nice cleanup, good cleanup, nice refactoring, clean refactoring, good work, great work, nice work, great job, good job, nice job, excellent work,
adds tests, adds good tests, includes tests, has tests, adds documentation, adds coverage, is unchanged, remains unchanged, stays unchanged, are unchanged, remain unchanged, is untouched, are untouched, is preserved, is up to date, are up to date, is updated, has been updated, have been updated, is released on every path, is closed on every path, is released, is closed, is documented and followed, stays bounded, is capped, is validated, are validated, is escaped, are escaped, is in place, are in place, runs cleanly, is kept, are kept,
# passed, # passed in #, # tests passed, linear, followed, was updated, were updated, was added, were added, explains the reason well, is capped at # kib, is capped at # mib, is capped at # kb, is capped at # mb, all # tests pass, all # tests passed, all # pass, all # passed, tests pass in, passed in #, 0 failed, 0 failures, 0 errors, 0 warnings, 0 skipped, report nothing, reports nothing, in line with, section by section, in the same change, in the same commit",
    plain: "
the, a, an, this, these, those, it, its, they, all, both, every, each, everything, whole, entire, is, are, has, have, has been, have been, looks, look, reads, very, really, overall, also, in, of, new, existing, public, which is,
with tests, with good, with clear, with a good, with a clear, with clean, with solid, with thorough, with meaningful, with proper, with the ticket, with the spec, with the specification, with the conventions, with the style, with the existing, with context, with it, to the ticket, to the spec, to the specification, to the conventions, to the style, to the guidelines,
i checked that, i verified that, i confirmed that, verified that, confirmed that, i see that, including the error path, including the error paths, including the edge cases, on both targets, on every path, on all paths, both ways, on all targets, on every target, all two, all three, all four, all five, all six, all seven, all eight, all nine, all ten,
change, changes, changeset, code, codebase, diff, patch, commit, commits, pr, pull request, tests, test, test suite, suite, suites, unit tests, integration tests, regression test, regression tests, new test, new tests, test coverage, coverage, test cases, test case, cases, case, edge cases, edge case, code path, code paths, error path, error paths, error case, error cases, error handling, error message, error messages, file, files, line, lines, module, modules, module's, function, functions, method, methods, class, classes, type, types, interface, api, implementation, solution, approach, design, architecture, structure, logic, behaviour, behavior, naming, names, name, style, conventions, convention, guidelines, pattern, patterns, comments, documentation, docs, readme, changelog, spec, specification, ticket, task, story, requirement, requirements, acceptance criteria, criteria, criterion, acceptance criterion, scope, input validation, validation, parser, parsing, loop, retry loop, lock, handle, cache, buffer, memory, timeout, migration, build, ci, pipeline, lint, linter, linters, formatter, clippy, eslint, ruff, mypy, pytest, cargo test, npm test, go test, checks, performance, security, quality, code quality, readability, maintainability, separation, separation of concerns, between parsing and validation, concerns, commit message, refactoring, cleanup, helper, existing helper, helpers, configuration, evidence, for the evidence, see, the fix, this fix, fix is, the work, tests for, test for, coverage for, verdict, line #, lines #, round #, instead of a new one, reason, the reason, targets, lock order, half to even, rounding, regular expression, flag, new flag, option, default",
    verbs: "is, are, has, have, looks, look, reads, i, see",
    orders: "cover, follow, match, meet, satisfy, explain, fulfil, fulfill, test, see that, fix, build, lock, cache, handle, name, line, type, commit, patch, change, comment, lint, scope, task, file, release",
    orders_before: (
        "clean, complete, correct, clear, secure, tidy, perfect, clear up, sound, approve",
        "the, this, these, those, it, its, all, both, every, each, everything, a, an, new, existing, tests, names, comments, lines, files, docs, types, checks, conventions, functions, methods, requirements, criteria, edge, error, test, unit, regression, documentation, line",
    ),
    joins: "and, &",
    idioms: "
no/zero/0/found_no/i_found_no/we_found_no/i_see_no/i_saw_no/i_have_no/there_are_no/there_is_no/i_spotted_no/i_did_not_find_any/i_did_not_find_a/i_didn't_find_any/i_could_not_find_any/i_couldn't_find_any/i_did_not_see_any/did_not_find_any issues/issue/problems/problem/findings/concerns/concern/defects/defect/bugs/bug/objections/objection/remarks/complaints/regressions/regression/mistakes/mistake/errors/faults/flaws/comments/questions/notes/suggestions found/seen/detected/identified/spotted/from_me/to_report/to_raise/remain/left? at_all? in/in_the/in_this? code/diff/change/commit/patch/tests/implementation/pr?
nothing/there_is_nothing/i_have_nothing/i_found_nothing to/left_to fix/add/report/change/complain_about/flag/note/object_to/improve/criticise/criticize/correct/address/raise
nothing/there_is_nothing is? missing/wrong/outstanding/amiss
nothing/there_is_nothing/there_was_nothing that? must/has_to/needs_to/needed_to be changed/fixed/corrected/addressed
nothing more/else/needs_fixing
no further/other? work/changes/change/action/actions/fixes/rework/corrections/follow_up is/are? required/needed/necessary/requested
no tests/test/check/checks/assertion/assertions is/are/was/were/has_been/have_been? removed/skipped/weakened/disabled/deleted/ignored or? removed/skipped/weakened/disabled/deleted/ignored?
no tests/test is/are missing that_i_can_think_of?
existing tests were/are/have_been not weakened/removed/skipped/changed
it/the_change/this_change/this/the_patch/the_diff? does_not/doesn't touch/change/alter/affect/break/modify the/any? public/existing interface/api/behaviour/behavior/callers/clients/functionality/contract/tests
it/the_change/this_change/this/the_patch? does_not/doesn't change/alter/affect behaviour/behavior for existing callers/users/clients
it/the_change/this_change/this/the_patch/and? does_not/doesn't/introduces_no/adds_no introduce/add? any? new? dependencies/dependency/regressions/issues/problems/warnings
it/the_code/the_change/everything/the_build? compiles/builds/passes/runs/works/lints cleanly? without/with_no/with_zero any? warnings/errors/issues/problems/failures
it/the_change/this? only? touches/changes only? @
the_change/change/it/this only touches documentation/docs/the_documentation/the_docs
documentation/docs only
links/anchors and? links/anchors? checked
the/all/all_the/all_of_the? previous_round's/previous/earlier? findings/remarks/comments/points/items/issues of/from? the? round_#/previous_round/first_round/last_round/previous_review/last_review? are/have_been/were all? fixed/resolved/addressed/done
the/this/that defect/bug/issue/problem/finding/fault is/was/has_been now? gone/fixed/resolved/addressed/corrected
must_fix items/findings from_last_time/from_round_#/from_the_last_round are done/fixed/resolved
what needed_to_be_fixed has_been fixed
the handle is closed
the name is escaped
i/we/i_have/we_have/i've/we've? carefully? read/reviewed/inspected/examined/checked/went_through/looked_at/looked_through/verified every/each/all/all_the/all_of_the/the_whole/the_entire/the_full/the_complete changed? file/files/line/lines/diff/change/changes/commit/code/changeset/patch of/in? the/this? diff/change/commit/patch? carefully/fully/line_by_line/in_full/in_detail/completely?
i/we/i_have/we_have/i've? carefully? read/reviewed/inspected/examined/checked/verified the/this diff/change/code/commit/changeset/patch carefully/in_full/completely/in_detail/line_by_line/fully?
everything is/has_been/was read/reviewed/checked/verified
i/we/i_have/we_have/i've? ran/run/executed/built the/all/every/all_the/all_of_the/the_whole/the_full/the_entire new? tests/test/suite/test_suite/checks/build/linter/linters/change/code/it locally?
i/we agree with_the/with_this? approach/design/decision/change/solution/implementation/it?
the_author_explains_the_trade_off_in_the_commit_message
i/we approve this/the/it? change/commit/diff/patch/pr?
i/we like the/this approach/change/design/structure/tests/solution/it
i_am/i'm/we_are happy/satisfied with_the/with_this change/result/code/implementation/tests
can/it_can/this_can/the_change_can be merged/landed/shipped
it/this/this_change/the_change/the_commit/everything? is/looks? ready/good/safe/fine/ok/clear to merge/land/ship/go/be_merged/be_landed
it/this/this_change/the_change/the_commit/everything? is/looks? ready for merge/merging/landing
ship/merge it
it/this/the_change/the_code? is/does/implements? exactly? what was/is/the_ticket/the_task/the_story asked/asks/requested/requires/needed/described/describes/specified/says for?
everything/all the_ticket/the_task/the_story/that_was asks/asked/requires/requested for? is there/done/implemented/in_place/covered/here
thanks/thank_you/many_thanks for the/this? work/change/fix/patch/tests/contribution
dead/unused/duplicate/duplicated/redundant/obsolete code is/was/has_been? removed
tests/test/the_test/the_tests/the_new_test/the_new_tests/new_tests fail/fails without the/this change/fix/patch
pass/passes with it/the_change/the_fix/the_patch
old configuration files still load
the_password/passwords/the_token/tokens/secrets/the_secret/the_key/keys is/are hashed? with_argon2/with_bcrypt/with_scrypt? and? never/not/no_longer logged
never/not/no_longer logged
secrets are read from the_environment? only?
the_names_are_clear
comments/the_comments explain why not? what?
not what
it never panics
it does_not_panic on empty_input any_more?
exactly_what_was_asked_for
as it should
the_test/a_test/the_tests/tests shows/show/proves/prove it
this/it/that is tested/covered/documented/correct
@ mention/mentions the new? flag/option
readme and changelog mention the new flag
small/short/minimal/focused
done/all_done/review_done/review_complete/reviewed
the error message/messages says/say what_to_do_next/what_to_do
i reverted the fix/change/patch locally? and confirmed/saw/checked that the new? test/tests fails/fail as_it_should?
the/this new? test/tests would fail if the bound/fix/change/check were/was removed/reverted
#/one/two/three/four low/minor/optional finding/findings/suggestion/suggestions is/are listed/attached/recorded
neither/none/none_of_them blocks/block the merge
the/my/all? findings are suggestions only?
the low finding/findings can be handled/addressed/fixed in_a_follow_up/in_follow_ups
i could_not/couldn't find a way to break it
only the two/three/four? file/files named_in/listed_in the_ticket is/are changed/touched
i checked/tested/tried it with a? long/large/empty/huge/malformed input
errors are propagated/returned/wrapped with_context instead_of_being_swallowed?
# lines fewer/less
i compared the result/code/change with the specification/spec/ticket section_by_section/line_by_line
i agree with the decision to keep the old? name/interface/api/signature
invalid/malformed/empty/bad input/names/requests is/are refused/rejected with a? clear message/error/error_message
the test/tests deletes/delete/removes/remove its/their own database/files/data/directory
if the file/value/setting is missing/absent the default/default_value is used
the timeout is ten/thirty/sixty/# seconds
as the_ticket says/asks/requires/describes
handles unicode names correctly
tested with combining characters
the type/types now? makes/make the/an? invalid state/states impossible
see @ for_the_evidence/for_evidence/for_the_test?",
};
