//! The words by which a text stops an approval in the same answer, by class and language.

/// Conjunctions that set a condition where an approval or a merge hangs on them.
pub(super) const IF: &str = "
if, when, whenever, in case, given that, wenn, falls, si, quand, lorsque, cuando, se, quando, caso, qualora, если, когда";
/// Conjunctions that set a condition already where a repair or a test hangs on them.
pub(super) const ONCE: &str = "
once, after, as soon as, provided, providing, until, till, unless, assuming, as long as, so long as, only if, only when, only once, only after, pending, sobald, sofern, nachdem, solange, erst wenn, bevor, dès que, une fois, après, tant que, avant que, pourvu que, en cuanto, una vez, después de, hasta que, mientras, assim que, uma vez, depois de, após, até que, enquanto, contanto, non appena, appena, una volta, dopo, finché, purché, как только, после, пока, лишь если, только если";
/// Conditions by themselves.
pub(super) const CONDITION: &str = "
on condition, on the condition, under the condition, with the condition, subject to, conditional on, conditional upon, conditionally, contingent on, contingent upon, provided that, on the understanding, with the proviso, with reservations, under protest, with the caveat that, approve only, approved only, approval only, only approve,
unter vorbehalt, unter der bedingung, unter der voraussetzung, vorausgesetzt, mit der auflage, vorbehaltlich, nur wenn, nur falls,
sous réserve, à condition, à la condition, sous condition, uniquement si, seulement si,
a condición, con la condición, siempre que, siempre y cuando, solo si, sólo si, con reservas, bajo la condición,
com a condição, sob a condição, desde que, contanto que, somente se, apenas se, só se, com ressalvas,
a condizione, a patto che, con riserva, solo se, soltanto se,
при условии, с условием, только если, лишь если, с оговорк*,
有条件, 前提是, 前提下, 条件是, 修复后, 修改后, 改完后, 之后再合并, 后再合并, 后才能, 才能合并, 才可以合并,
条件付き, を条件に, 修正後に, 修正したら, 直したら, 直れば, 修正されれば, 通ったら承認, 通れば承認,
조건부, 조건으로, 수정 후에, 수정되면, 고치면, 통과하면 승인";
/// Names of the step that a condition holds up: the approval or the merge.
pub(super) const GATE: &str = "
approv*, merg*, land, lands, landed, landing, ship, ships, shipped, shipping, lgtm, accept, accepted, acceptable, sign off, signed off, verdict, countersign*, deploy*, genehmig*, freigab*, freigeb*, freigegeben, gemergt, zustimm*, approuv*, fusion*, aprob*, aprueb*, aprov*, mescl*, одобр*, слия*, слить, сливать, мерж*";
/// Verbs for the repair that has to happen first.
pub(super) const REPAIR: &str = "
fixed, removed, resolved, addressed, renamed, reverted, rotated, corrected, rewritten, reworked, replaced, repaired, patched, answered, clarified, added, changed, fix, fixing, you fix, you remove, you rotate, rebase*, signs off, ci, tests pass, pipeline, is green, are green, goes green, behoben, entfernt, korrigiert, ersetzt, getauscht, ergänzt, corrigé*, supprimé*, retiré*, remplacé*, ajouté*, corregid*, eliminad*, quitad*, cambiad*, añadid*, corrigid*, removid*, trocad*, adicionad*, corrett*, rimoss*, aggiunt*, sostituit*, исправ*, удал*, убра*, замен*, добав*";
/// An approving word at the start of a sentence: a condition behind it is one of the approval.
pub(super) const YES: &str = "
fine, ok, okay, good, yes, happy, lgtm, approve, approved, approving, gut, passt, einverstanden, d'accord, bien, oui, vale, bien, sí, sim, tudo bem, va bene, bene, хорошо, да, ладно";

/// Reading that was not done, or not to its end.
pub(super) const UNREAD: &str = "
ran out of, run out of, out of context, context limit, context window, token limit, timed out, to be continued, i stopped, then stopped, and stopped, had to stop, gave up, gave it up, cut short, was cut off, is cut off, the diff is truncated, diff was truncated, truncated, i skipped, we skipped, i skimmed, we skimmed, only skimmed, skimmed it, skimmed the, glanced, cursory, superficial, without reading, without looking, without running, without opening, without having read, unread, half of, first half, second half, the other half, more later, rest later, rest tomorrow, look at the rest, read the rest, review the rest, the rest of the files, remaining files, part 1, part one, still reading, still reviewing, not finished, unfinished, review is incomplete, incomplete review, partial review, only partially, partially reviewed, no time, not enough time, no access, had no access, could not access, couldn't access, cannot access, can't access, unable to read, unable to open, unable to access, unable to review, unable to run, unable to finish, could not finish, couldn't finish, could not load, couldn't load, file was missing, files were missing, rubber stamp*, blindly, sight unseen, i trust the author, took it on trust, haven't had, have not had,
nicht gelesen, nicht angesehen, nicht angeschaut, nicht geöffnet, nicht geprüft, nicht überprüft, nicht ausgeführt, nicht getestet, nicht durchgesehen, nicht zu ende, nicht fertig, nicht vollständig, unvollständig*, abgebrochen, abgeschnitten, überflogen, habe nur, nur überflogen, nur den titel, nur die hälfte, die hälfte, zur hälfte, ungelesen, keine zeit, kein zugriff, keinen zugriff, den rest,
pas lu, pas relu, pas vérifié, pas regardé, pas ouvert, pas testé, pas exécuté, pas terminé, pas fini, pas eu le temps, lu que, regardé que, relu que, la moitié, à moitié, survolé, incomplet*, tronqué*, non lu, le reste, pas accès,
no leí, no he leído, no lo leí, no revisé, no he revisado, no abrí, no he abierto, no miré, no ejecuté, no probé, no terminé, no he terminado, solo leí, sólo leí, solo he leído, solo miré, solo revisé, la mitad, a medias, sin leer, sin abrir, sin ejecutar, incomplet*, truncad*, el resto, no tuve tiempo, sin acceso,
não li, não revisei, não abri, não olhei, não executei, não testei, não terminei, só li, apenas li, li só, li apenas, só olhei, metade, sem ler, sem abrir, incomplet*, truncad*, o resto, não tive tempo, sem acesso,
non ho letto, non ho aperto, non ho controllato, non ho eseguito, non ho guardato, non ho finito, ho letto solo, ho solo letto, ho guardato solo, la metà, metà dei, senza leggere, senza aprire, incomplet*, troncat*, il resto, non ho avuto tempo,
не читал*, не прочитал*, не смотрел*, не просмотрел*, не открывал*, не проверял*, не проверил*, не запускал*, не дочитал*, не закончил*, прочитал только, читал только, смотрел только, только заголовок, только половин*, половин*, наполовину, неполн*, обрезан*, не успел*, остальное, нет доступа,
没看, 没有看, 没读, 没有读, 没有阅读, 未阅读, 未读, 未看, 未查看, 只看了, 只读了, 只看, 仅看, 一半, 没有运行, 没运行, 未运行, 没有测试过, 没测, 没时间, 看不到, 无法读取, 未完成, 还没看完, 没看完, 被截断,
読んでいません, 読んでない, 読めません, 読めていません, 見ていません, 見てない, 確認していません, 確認できていません, 開いていません, 実行していません, だけ読, だけ見, だけ確認, のみ確認, のみ読, 半分, 途中まで, 途中で, 未確認, 時間がなく, 終わっていません, 切れて,
읽지 않, 읽지 못, 보지 않, 보지 못, 확인하지 않, 확인하지 못, 실행하지 않, 만 읽, 만 봤, 만 확인, 절반, 중간까지, 시간이 없, 끝내지 못, 미완료";
/// Verbs of reading and trying.
pub(super) const READ: &str = "
read, reading, look, looked, looking, open, opened, review, reviewed, run, ran, test, tested, inspect*, examin*, finish*, verify, verified, go through, get to, got to, reach, reached, check, checked, see the, seen the, see all, see any of the files";

/// Work that is asked for.
pub(super) const ASK: &str = "
please, pls, plz, kindly, before merg*, before it is merged, before this is merged, before it merges, before this merges, before we merge, before you merge, before landing, before it lands, before this lands, before shipping, before release, before the release, before releasing, before deploy*, must go, must not ship, must not be merged, must not land, should not be merged, should not be shipped, should not land, do not merge, don't merge, do not land, don't land, do not ship, don't ship, hold off, on hold, needs work, needs rework, needs more work, needs a fix, needs fixing, needs to be, needs tests, needs a test, needs more tests, need to be, needs changes, changes needed, changes required, changes are needed, changes are required, is required before, are required before, fix needed, fix required, fixes needed, rework needed, action required, action needed, back to the author, back to you, send back, sent back, send it back, start over, wait for, waiting for, wait until, is a blocker, are blockers, blocks merg*, blocks the merge, blocks this, blocks the release, blocks landing, is blocking, showstopper*, has to sign off, have to sign off, must sign off, has to approve, must approve, needs approval, requires approval, as soon as possible,
bitte, zuerst, vor dem merge, vor dem mergen, vor der freigabe, muss noch, müssen noch, muss behoben, muss erst, muss weg, muss raus, muss geändert, müssen behoben, müssen geändert, sollte behoben, sollte entfernt, noch beheben, noch ergänzen, noch korrigieren, nicht mergen, nicht einspielen, noch nicht einspielen, warte auf, warten auf, zurück an, überarbeiten, nachbessern, blockiert den, verhindert den merge,
veuillez, s'il vous plaît, s'il te plaît, merci de, merci d'ajouter, merci d'abord, avant la fusion, avant de fusionner, avant le merge, il faut, doit être corrig*, doit être supprim*, doit être retir*, doivent être, à corriger, à revoir, à retirer, ne pas fusionner, attendre, bloque la fusion, d'abord,
por favor, hay que, debe corregirse, debe eliminarse, debe ser corregid*, deben corregirse, antes de fusionar, antes del merge, antes de mezclar, no fusionar, esperar a, falta corregir, falta añadir, faltan pruebas, faltan tests, bloquea la fusión, bloquea el merge, primero,
é preciso, precisa ser, precisam ser, precisa corrigir, deve ser corrigid*, deve ser removid*, devem ser, antes do merge, antes de mesclar, antes de fazer merge, não fazer merge, não mesclar, aguardar, faltam testes, falta corrigir, bloqueia o merge, primeiro,
per favore, si prega, bisogna, va corrett*, vanno corrett*, deve essere, devono essere, prima del merge, prima di unire, non unire, attendere, mancano i test, mancano test, blocca il merge,
пожалуйста, нужно исправить, надо исправить, необходимо исправить, нужно удалить, надо убрать, следует исправить, исправьте, добавьте, удалите, уберите, переименуйте, замените, перед слиянием, до слияния, не сливать, не мержить, подождите, ждём, ждать, нужны изменения, требуются изменения, требуется исправ*, должно быть исправлено, должен быть исправлен, блокирует слияние, сначала,
请修, 请先, 请在, 请补, 请添, 请删, 请改, 请将, 请把, 请移除, 请重, 请回滚, 请等, 必须修, 必须先, 必须删, 必须改, 必须移除, 必须在, 需要修, 需要先, 需要改, 需要删, 需要补, 需要在, 要先修, 先别合并, 先不要合并, 不要合并, 别合并, 不能合并, 合并前, 合并之前, 阻止合并, 等待, 应先,
してください, して下さい, お願いします, 修正が必要, 修正の必要があります, 直す必要, 対応が必要, すべきです, するべき, マージ前, マージする前, マージしないで, マージをブロック, 待って, 直して, 消して,
해 주세요, 해주세요, 주세요, 하십시오, 해야 합니다, 해야 함, 수정이 필요, 수정 필요, 병합 전, 병합하기 전, 병합하지 마, 기다려";
/// Verbs that open a demand, in the form of the demand.
pub(super) const ORDER: &str = "
fix, remove, revert, rename, add, change, rotate, delete, replace, rewrite, undo, rework, redo, address, correct, restore, split, escape, hash, encrypt, validate, sanitize, drop, stop, wait, hold, answer, do, don't, move, update, make, put, take out, get rid, rebase, squash, clarify, document, test, kill, close the, do not, never merge,
corriger, corrigez, corrige, supprimer, supprimez, supprime, ajouter, ajoutez, renommer, renommez, retirer, retirez, remplacer, remplacez, attendez, enlever, enlevez,
corregir, corrige, corrija, eliminar, elimina, elimine, añadir, añade, añada, quitar, quita, quite, cambiar, cambia, renombrar, reemplazar, espera,
corrigir, corrija, remover, remova, adicionar, adicione, trocar, troque, renomear, substituir, substitua, espere, aguarde, apague,
correggere, correggi, rimuovere, rimuovi, aggiungere, aggiungi, cambiare, cambia, rinominare, sostituire, sostituisci, aspetta,
исправить, исправь, удалить, удали, добавить, добавь, убрать, убери, заменить, замени, переделать, переименовать, откатить";
/// Auxiliaries of a demand; one of [`ORDER`] or [`REPAIR`] has to follow.
pub(super) const MUST: &str = "
must, must be, has to, has to be, have to, have to be, needs to, needs to be, need to, need to be, ought to, ought to be, should be, should be first, had better, you should, author should, is to be, are to be, muss, müssen, sollte, sollten";

/// Words for something that does not work, is gone or is open to everybody.
pub(super) const FAILS: &str = "
is broken, are broken, was broken by, broke, breaks the, breaks login, breaks logging, breaks every*, breaks all, breaks on, nothing works, none of it works, not working, no longer works, no longer compiles, no longer builds, stopped working, is red, are red, went red, is gone, build error*, compile error*, compilation error*, syntax error in, type errors in, is failing, are failing, keeps failing, loses data, lose data, lose their data, data is lost, data loss, loses all, corrupts, segfaults, is vulnerable, are vulnerable, sql injection in, an injection, is exploitable, backdoor in, a backdoor, the backdoor, in plain text, in cleartext, in plaintext, in the clear, leaks the, leaks a, leaks all, leaks every*, leaks memory, leaks to, key leaks, token leaks, password leaks, secret leaks, is leaked, are leaked, log in as root, log in as admin, without a password, with an empty password, not what the ticket, not what was asked, not what is asked, wrong ticket, does nothing, do nothing, nothing that the ticket, does something else, this does y, instead of what, no tests, zero tests, no test covers, without tests, untested, is a mess, is wrong, are wrong, is incorrect, are incorrect, incorrect result*, wrong result*, race condition in, never terminates, never ends, loops forever, infinite loop, off by one in, remote code execution, auth bypass, critical bug, critical issue, critical problem, critical vulnerab*, security hole,
kompiliert nicht, baut nicht, startet nicht, funktioniert nicht, geht nicht, läuft nicht, laufen nicht, klappt nicht, ist kaputt, sind kaputt, ist rot, sind rot, stürzt ab, fehlgeschlagen, schlägt fehl, schlagen fehl, geht nicht mehr, löscht alle, im klartext, falsches ergebnis, ist falsch, sind falsch, keine tests,
ne compile pas, ne compile plus, ne marche pas, ne marche plus, ne fonctionne pas, ne fonctionne plus, ne démarre pas, ne passe pas, ne passent pas, ne build pas, est cassé*, sont cassé*, échouent, échoue, plante, est en clair, en clair, est faux, est fausse, aucun test,
no compila, no funciona, no arranca, no inicia, no pasan, no pasa, está rot*, están rot*, fallan, falla al, falla en, falla la, falla el, en texto plano, está en claro, en claro, es incorrect*, está mal, sin pruebas, no hay pruebas,
não compila, não funciona, não inicia, não passam, não passa, quebrou, está quebrad*, estão quebrad*, falham, falha ao, falha no, falha em, em texto puro, em texto claro, está errad*, sem testes, não há testes,
non compila, non funziona, non parte, non si avvia, non passano, non passa, è rotto, è rotta, sono rotti, fallisce, falliscono, in chiaro, è sbagliat*, senza test, nessun test,
не компилируется, не собирается, не работает, не работают, не запускается, не проходят, не проходит, сломан*, сломал*, падает, падают, в открытом виде, неправильн*, неверн*, тестов нет, нет тестов, без тестов,
无法编译, 不能编译, 编译失败, 编译不过, 编译不了, 无法构建, 构建失败, 无法启动, 无法运行, 不能运行, 不工作, 不能用, 坏了, 崩溃, 测试失败, 测试不通过, 测试没有通过, 明文, 数据丢失, 有漏洞, 存在漏洞, 结果错误, 是错的, 没有测试,
コンパイルできません, コンパイルが通りません, コンパイルエラー, ビルドできません, ビルドが失敗, 動きません, 動作しません, 起動しません, 壊れて, 失敗します, 失敗しています, 失敗しました, 通りません, クラッシュし, 平文, データが失われ, 脆弱性があ, 間違って, 誤って, テストがありません,
컴파일되지 않, 컴파일이 안, 빌드되지 않, 빌드가 안, 작동하지 않, 동작하지 않, 실행되지 않, 시작되지 않, 깨졌, 깨집니다, 실패합니다, 실패했습니다, 평문, 데이터가 손실, 취약점이 있, 틀렸습니다, 테스트가 없";
/// Failures that no other words of the sentence excuse.
pub(super) const FAILS_NOW: &str = "
geht nicht mehr, funktioniert nicht mehr, läuft nicht mehr, never terminates, never ends, never finishes, never works, never compiles, never starts, no longer works, no longer work, no longer compiles, no longer builds, no longer starts, no longer passes, no longer pass, ne marche plus, ne compile plus, ne fonctionne plus, ya no funciona, ya no compila, não funciona mais, não compila mais, non funziona più, non compila più, больше не работает, больше не компилируется, 不再工作, 動かなくなり";
/// Verbs of working; with a negation before them the thing does not work.
pub(super) const WORK: &str = "
compile, compiles, build, builds, start, starts, work, works, working, run at all, pass, passes, link, install, installs, boot, boots, terminate, terminates, do what, solve, solves, meet, meets, satisfy, satisfies, fulfil, fulfils, fulfill, implement, fix the, log in, type check, typecheck, parse its, render";
/// Verbs of dying in the present tense.
pub(super) const DIES: &str =
    "crashes, panics, segfaults, deadlocks, hangs, corrupts, crash on, panic on";
/// Words that take a failure back: the sentence tells of a test, of the past or of what cannot happen.
pub(super) const UNLESS_SAID: &str = "
without the change, without the fix, without this, without it, as it should, as expected, would, no longer, never, any more, anymore, is fixed, are fixed, was fixed, were fixed, been fixed, is covered, are covered, is tested, are tested, is handled, are handled, prevented, is gone, cannot happen, can no longer, can't happen, confirmed that, reverted the fix, before the change, before the fix, used to, round 1, last round, previous round, previously, as documented, as specified, which is right, on purpose, deliberately, by design, is closed, is resolved, are resolved, described in the ticket, that the ticket describes, from the ticket, ohne die änderung, ohne den fix, nicht mehr, behoben, sans la modification, sans le correctif, ne plus, n'est plus, corrigé*, sin el cambio, ya no, corregid*, sem a alteração, não mais, não é mais, corrigid*, senza la modifica, non più, corrett*, без изменения, без исправления, больше не, исправлен*, 已修复, 不再, 修正済み, しなくなり, 더 이상";
/// Denials in front of what sounds like a demand: "nothing must be changed".
pub(super) const NOTHING: &str = "nothing, none, neither, no need, not necessary, needn't, no changes, no further, no longer, nichts, keine, rien, aucun*, nada, ningun*, ningún, nenhum*, niente, nessun*, ничего, не нужно, не требуется, 无需, 不需要, 不要です, 必要はありません, 필요 없";
/// Words for a demand that is met.
pub(super) const DONE: &str = "is done, are done, was done, were done, all done, is fixed, are fixed, was fixed, were fixed, has been, have been, is resolved, are resolved, was resolved, were resolved, is gone, are gone, sind behoben, ist behoben, sind erledigt, est corrigé*, sont corrigé*, está corregid*, están corregid*, está corrigid*, estão corrigid*, è corrett*, sono corrett*, исправлен*";

/// An approval taken back.
pub(super) const RETRACTS: &str = "
scratch that, strike that, take that back, take it back, take this back, taking that back, on second thought, second thoughts, changed my mind, change my mind, just kidding, only kidding, kidding, just joking, joking, was a joke, is a joke, april fool*, sarcasm, sarcastic*, psych, not really, not seriously, ignore the above, ignore this, ignore my, ignore that, ignore the verdict, disregard, wrong window, wrong pr, wrong ticket, wrong change, wrong branch, wrong commit, retract*, revoke*, revoking, withdraw*, withdrew, rescind*, null and void, is void, invalid approval, not an approval, no approval, not approved, not approve, cannot approve, can't approve, won't approve, would not approve, wouldn't approve, i reject, we reject, i would reject, i'd reject, reject this, i refuse, request changes, requesting changes, i disapprove, disapprove, against my better, under duress, told me to, told to say, asked me to approve, asked me to say, was told to, made me, forced me, i was forced, see my later, superseded by my, this is a placeholder, is a placeholder, placeholder text, template text, sample answer, lorem ipsum, i lied, was a lie, actually no, actually wait, actually not, hmm no, wait no, i was wrong, verdict is wrong, approval is wrong, at your own risk, no responsibility,
ich nehme das zurück, nehme ich zurück, nehme es zurück, ziehe das zurück, ziehe ich zurück, ziehe es zurück, zurückgezogen, widerruf*, war ein scherz, ein scherz, war gelogen, quatsch, doch nicht, nicht genehmigt, nicht genehmigen, lehne ab, ich lehne, ungültig, vergiss es,
je retire, retire mon, je reprends, c'était une blague, une blague, je plaisante, je plaisantais, finalement non, en fait non, non approuvé, je refuse, je rejette, annulé*, nul et non avenu,
me retracto, retiro lo, lo retiro, era broma, era una broma, es broma, mejor no, en realidad no, no aprobado, rechazo, anulad*, olvídalo,
retiro o que, me retrato, era brincadeira, é brincadeira, brincadeira, melhor não, na verdade não, não aprovado, rejeito, anulad*, cancelad*, esqueça,
ritiro quanto, ritiro quello, lo ritiro, era uno scherzo, uno scherzo, scherzavo, anzi no, in realtà no, non approvato, rifiuto, annullat*,
беру слова назад, беру назад, беру свои слова, забираю назад, шутка, это была шутка, шучу, пошутил*, на самом деле нет, не одобряю, не одобрено, отзываю, отменяю, отклоняю, передумал*,
我收回, 收回, 撤回, 撤销, 作废, 开玩笑, 说笑, 骗你, 改变主意, 不批准, 不同意, 拒绝, 其实不行, 忽略上面, 忽略以上,
撤回, 取り消し, 取消し, 冗談, 嘘です, 気が変わ, 承認しません, 承認できません, 却下, 無視して, やっぱり,
철회, 취소합니다, 농담, 거짓말, 승인하지 않, 승인할 수 없, 거부, 반려, 무시하";
/// Whole sentences that take an approval back.
pub(super) const DENIALS: &[&str] = &[
    "no",
    "nope",
    "nah",
    "not",
    "never",
    "no way",
    "void",
    "invalid",
    "revoked",
    "expired",
    "withdrawn",
    "retracted",
    "rejected",
    "reject",
    "denied",
    "block",
    "blocked",
    "nein",
    "doch nicht",
    "non",
    "nada de eso",
    "não",
    "нет",
    "否",
    "不",
    "いいえ",
    "아니요",
    "아니오",
    "approve no",
    "no no",
    "hold",
    "stop",
    "wait",
    "request changes",
    "changes requested",
    "timeout",
    "killed",
    "aborted",
    "error",
    "incomplete",
];

/// Words that a finding must not have next to an approval, whatever its severity.
pub(super) const BLOCKS: &str = "
must fix, must be fixed, must be resolved, must be addressed, must be removed, must be changed, must be reverted, must go, has to be fixed, have to be fixed, needs to be fixed, need to be fixed, before merg*, before it is merged, before this is merged, before landing, before the release, before release, before shipping, blocks merg*, blocks the merge, blocks this, blocks the release, blocks landing, blocks approval, is a blocker, are blockers, release blocker, merge blocker, is blocking, showstopper*, do not merge, don't merge, do not land, do not ship, cannot be merged, can't be merged, should not be merged, must not be merged, must not ship, must not land, not acceptable, unacceptable, i reject, reject this, rejecting, i cannot approve, cannot approve, can't approve, won't approve, request changes, requesting changes,
muss behoben werden, müssen behoben werden, muss vor dem, blockiert den merge, blockiert die freigabe, nicht mergen, ich lehne, doit être corrig*, doivent être corrig*, avant la fusion, avant de fusionner, bloque la fusion, ne pas fusionner, debe corregirse, deben corregirse, antes de fusionar, bloquea la fusión, bloquea el merge, no fusionar, deve ser corrigid*, devem ser corrigid*, antes do merge, bloqueia o merge, não mesclar, deve essere corrett*, prima del merge, blocca il merge, non unire, должно быть исправлено, нужно исправить до, перед слиянием, блокирует слияние, не сливать, 必须修复, 必须修改, 合并前, 阻止合并, 不能合并, 修正必須, 必ず修正, マージ前, マージをブロック, マージしないで, 반드시 수정, 병합 전, 병합을 막";
