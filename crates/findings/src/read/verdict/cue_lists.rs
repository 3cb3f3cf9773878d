//! Words and phrases that take an approval back, by what they do. They are broad on purpose: an
//! approval that is missed is asked for again, one that nobody gave is not.

/// A reservation or a condition wherever it stands near an approval.
pub(super) const RESERVES: &str = "
but, however, although, though, except, excepting, other than, aside from, apart from, unless, until, till, provided,
subject to, pending, contingent, conditional*, condition, conditions, provisional*, tentative*, assuming, as long as,
so long as, as soon as, only if, only when, only after, only once, only for, just fix, just change, nevertheless, nonetheless, yet to,
on condition, in principle, in theory, for now, so far, partially, partly, almost, nearly, mostly, barely, reluctant*, with caution,
with reservations, with concerns, with changes, with conditions, with fixes, that said, having said, still need*, still have, still fail*, still leak*, still miss*,
depends, depending, hinges, on the assumption, caveat*, reservation*, waiver*,
aber, jedoch, allerdings, sofern, falls, wenn, sobald, nachdem, bevor, erst, nur, außer, ausser, vorausgesetzt, vorbehaltlich, vorbehalt,
bedingung*, solange, ehe, bis, obwohl, noch, eventuell, teilweise,
mais, cependant, toutefois, pourtant, sauf, sous réserve, réserve de, à condition, si, une fois, dès que, lorsque, quand, après, avant, tant que,
à moins, quoique, sinon, seulement, uniquement, partiellement,
pero, sin embargo, aunque, salvo, excepto, siempre que, a condición, con la condición, cuando, una vez, en cuanto, después, antes, hasta, a menos, sólo, solo, siempre y cuando, parcial*,
mas, porém, contudo, entretanto, exceto, desde que, contanto, se, quando, assim que, após, depois, até, a menos que, apenas, somente, caso, uma vez que, ressalva*,
ma, però, tuttavia, tranne, a condizione, purché, una volta, dopo, prima, finché, soltanto, appena,
но, однако, кроме, если, когда, после, как только, при условии, условие*, до, пока, перед, хотя, только, лишь, частично,
但, 不过, 除非, 如果, 只要, 只有, 条件, 之前, 前必须, 前需, 前请, 之后, 后再, 以后, 待, 暂, 先修, 先解决, 才能, 才可, 前提, 除了, 若, 等,
ただし, しかし, 条件, まで, ならば, なら, たら, れば, 前に, 後に, のちに, もし, 場合, だが, ですが, ますが, 次第, 一部, のみ, 除き, 除いて, ものの, けれど,
하지만, 그러나, 조건, 전에, 후에, 경우, 만약, 다만, 이후, 까지, 제외";

/// Work that is demanded.
pub(super) const DEMANDS: &str = "
must, need to, needs, needed before, has to be, have to be, have to fix, is required, are required, is necessary, are necessary, required change*, required fix*,
changes required, changes requested, changes needed, requires change*, requires fix*, requires rework, requires work, please, fix the, fix this, fix it, fix these, fix all, fix your, to fix, fixes needed, address the, address these, address all,
before merg*, before landing, before shipping, before approv*, before release, before deploy*, before i, before we, before it, before this, rework*, redo, revert*, revise*, revision*,
should be fixed, should fix, should not, ought to, want changes, want you to, request changes, requesting changes, i request, demand*, blocker*, block, blocks, blocked, blocking, must fix, mustfix, action required, todo, fixme, wip,
muss, müssen, nötig, notwendig, erforderlich, bitte, korrigier*, beheb*, behoben werden, nachbesser*, überarbeit*,
doit, doivent, devez, faut, nécessaire*, requis*, requise*, veuillez, corrige*, corrigez, corriger, à revoir, s'il vous plaît,
debe, deben, hay que, necesari*, requiere*, requier*, corrij*, corrig*, corregir, por favor, arregl*,
deve, devem, precisa*, é necessári*, necessári*, corrij*, corrigir, por favor, ajust*,
devono, correggere, correggi, per favore,
должен, должн*, нужно, надо, требу*, необходим*, пожалуйста, исправить, исправьте, доработ*, переделать,
必须, 需要, 请修, 请先, 请在, 应当, 修改后, 修复后, 修正后, 要改, 要修, 须,
必要, 修正して, 直して, してください, 要修正, べき, 修正後, 対応後,
필요, 수정, 해야, 해주세요";

/// A refusal, a negation of the approval, or its withdrawal.
pub(super) const REFUSES: &str = "
not ready, not approv*, not merge*, not yet, not fixed, not tested, not covered, not reviewed, not sure, not safe, not secure, not correct, not work*, not complete*, not acceptable, not accept*, not good,
not happy, not convinced, not really, not so, not at all, not an approval, not a verdict, not my, not the verdict, not lgtm, not ok, not okay, not pass*, not be, not to, not this, not until, not land*, not ship*, not sign*, not true, not what, not for, not i, not me, not mean*, not count*, not valid, not final,
do not, don't, dont, cannot, can't, cant, can not, won't, will not, would not, wouldn't, isn't, aren't, doesn't, didn't, wasn't, weren't, shouldn't, couldn't, never, no way, no approval, no lgtm, no one, nobody, nothing here, hardly, neither, nor,
refus*, reject*, denied, deny, denies, denial, declin*, withh*, objection*, disagree*, disapprov*, unapprov*, veto*, no go, nogo, thumbs down, 👎,
revok*, withdraw*, withdrew, retract*, rescind*, overrid*, overrul*, take that back, take it back, took it back, scratch that, strike that, never mind, nevermind, second thought*, disregard, ignore, was wrong, a mistake, by mistake, changed my mind, correction, mistaken, erroneous*, premature*, expired, invalid*, supersed*, obsolete, outdated, stale,
on hold, hold off, wait, waiting, awaiting, postpone*, later, tomorrow, soon, send back, sent back, go back, back to, return to, changes are, denied,
nicht, kein*, nie, niemals, abgelehnt, ablehn*, lehne, verweiger*, zurückgewiesen, zurückgezogen, zurücknehmen, widerruf*, irrtümlich, warten, später, ungültig,
pas, ne, jamais, non, aucunement, rejet*, refus*, retir*, annul*, erreur de, attendre, plus tard,
nunca, jamás, no, rechaz*, deneg*, retir*, anul*, esper*, más tarde, tampoco,
não, nunca, jamais, rejeit*, reprov*, recus*, neg*, cancel*, aguard*, mais tarde,
non, mai, respint*, rifiut*, annull*, ritir*,
не, нет, никогда, ни, отклон*, отказ*, отозв*, отмен*, подожд*, позже, нельзя,
不, 未, 没, 沒, 无法, 拒, 驳回, 否, 撤回, 撤销, 取消, 作废, 稍后, 别,
ない, ません, ぬ, 却下, 差し戻, 拒否, 不可, 取り消, 撤回, 保留, 見送, 未, 否認, 待って,
않, 못, 거부, 거절, 반려, 불가, 아니, 취소, 보류, 아직";

/// Doubt, irony, the future or a mere possibility.
pub(super) const DOUBTS: &str = "
doubt*, unsure, uncertain*, maybe, perhaps, might, would, hypothetical*, suppose*, imagine, pretend*, joking, kidding, joke, sarcas*, ironic*, as if, haha*, lol, guess*, i think, i hope, hopefully, probably, possibly, presumabl*, supposedly, allegedly, apparently, wish, if only, lean towards, leaning, made me, told to, told me, forced, asked me, ordered, pressure*, against my, inclin*, tempted, going to, will approve, will be approved, to be approved, to approve, about to, plan to, intend*, want to, could approve, can approve, may approve, should approve, should i, shall i, shall we, is it, rhetorical*, proposed, proposal, suggested verdict, draft, preliminary, dry run, simulat*, mock*, dummy, fake*, placeholder,
würde, könnte, vielleicht, möglicherweise, wahrscheinlich, werde, soll, sollte, angenommen dass, entwurf,
aurait, serait, pourrait, peut être, probablement, faudrait, brouillon,
quizás, quizá, tal vez, podría, sería, probablemente, borrador,
talvez, poderia, seria, provavelmente, rascunho,
forse, potrebbe, sarebbe, probabilmente, bozza,
возможно, наверное, может, бы, вероятно, черновик,
也许, 可能会, 可能不, 大概, 似乎, 假设, 假如, 打算, 吗,
かもしれ, おそらく, たぶん, だろう, でしょう, 仮に, 予定, と思,
아마, 것 같";

/// Somebody else's words, an earlier time, an example, a form to fill in.
pub(super) const QUOTES: &str = "
quote*, quoting, said, says, saying, claims, claimed, claiming, wrote, writes, replied, replies, answered, according to, stated, the author, author says, reporter, submitter, contributor, he, she, his, her, someone, somebody, everyone, other reviewer*, another reviewer, second reviewer, first reviewer, reviewer #, my colleague, colleague*, teammate, bot, copilot, coderabbit, dependabot, ci says, forwarded, on behalf,
 last time, previous verdict*, previous review*, previous decision*, previous approval*, previous version, prior verdict*, prior review*, prior decision, prior approval, earlier verdict*, earlier review*, earlier decision*, earlier approval*, earlier i, earlier today, earlier on, originally i, initially i, initial verdict, initial review, initial decision, original verdict, original review, original decision, former verdict, previously, originally, back then, yesterday, last week, was approved, were approved, had approved, has approved, have approved, been approved, used to, in the past, at first,
example*, e.g, eg, sample, template*, placeholder, fill in, prompt*, instruction*, tool result, tool output, tool call, function call, output of, echo*, respond, reply with, answer with, end with, either, choose, pick one, one of, possible values, allowed values, valid values, legend, should say, must say, supposed to, test case*, expected output, transcript, you are, your task, your job, the above, above line, line above, what the, self review*, self approv*, own change, own work, rubber stamp*,
zitat*, zitiert, sagte, sagt, schrieb, schreibt, behauptet*, angeblich, laut, gemäß, vorige*, vorherige*, frühere*, früher, ursprünglich, beispiel*, vorlage, muster, antworte, antworten sie, entweder, format, kollege*,
cite*, citation, a dit, dit que, a écrit, écrit, prétend*, selon, précédent*, auparavant, ancien*, exemple*, modèle, réponds, répondez, gabarit, collègue*,
cita, dijo, dice, escribió, según, afirma*, anterior*, antes, ejemplo*, plantilla, responde*, compañero*,
disse, diz, escreveu, segundo o, segundo a, afirma*, anterior*, exemplo*, modelo, responda*, colega*,
ha detto, dice, ha scritto, secondo, precedente*, esempio*, modello, rispondi*, collega,
сказал*, пишет, написал*, утвержда*, согласно, предыдущ*, ранее, прежн*, раньше, пример*, шаблон*, ответь*, ответьте, коллег*, автор*,
例如, 示例, 例子, 模板, 格式, 作者, 他说, 她说, 声称, 上一轮, 上次, 之前的, 第一轮, 回答, 请输出, 请回复, 选项, 引用, 说：, 写道, 提示词,
例：, 例え, テンプレ, 形式, 著者, 作者, と言, と書, 前回, 以前, 回答, 選択肢, 引用, 出力, さんが, によると, プロンプト,
예시, 예를, 템플릿, 형식, 작성자, 이전, 라고, 인용, 지난";

/// A review that was not finished.
pub(super) const UNFINISHED: &str = "
 timed out, time out, truncat*, cut off, cut short, incomplete*, unfinished, unable, could not, couldn't, skipped, skipping, ran out, run out, out of context, context window, context limit, token limit, rate limit*, quota, aborted, interrupted, crashed, gave up, only read, only reviewed, only looked, only checked, only skimmed, only saw, skimmed, without reading, without looking, without running, rest of, remaining files, first half, first #, still running, to be continued, continued, snip, omitted, unread, inaccessible, looked at nothing, read nothing, reviewed nothing, checked nothing, did nothing, nothing was, nothing has, nobody looked, blindly, unseen, sight unseen, at a glance, glanced, cursory, superficial*, no access, not available, unavailable, overloaded, failed to,
unvollständig*, abgebrochen, abgeschnitten, gekürzt, ungelesen, überflogen, zeitüberschreitung,
incomplet*, tronqu*, interromp*, survolé*, inachevé*,
truncad*, interrump*, errores, inacab*, incompleta,
interromp*, inacabad*, incompleta,
неполн*, обрезан*, прерван*, незаверш*,
不完整, 截断, 中断, 超时, 错误, 只看, 省略, 部分, 出错, 略读,
不完全, 途中, 打ち切, 中断, エラー, 省略, 部分的, タイムアウト, だけ読,
불완전, 중단, 오류, 생략, 일부";

/// Defects. A sentence that says they are gone is no reason to doubt.
pub(super) const DEFECTS: &str = "
fail*, broken, breaks, break, leak*, injection*, vulnerab*, exploit*, insecure*, unsafe, crash*, critical*, severe*, serious*, high severity, data loss, corrupt*, deadlock*, race condition*, plain text, plaintext, cleartext, password*, secret*, credential*, api key*, private key*, backdoor*, malicious, bug, bugs, buggy, wrong*, incorrect*, missing, lacks, lack of, without test*, untested, problem*, issue*, concern*, defect*, flaw*, regress*, panic*, overflow*, bypass*, unvalidated, unsanitized, hardcoded, hard coded, danger*, risk*, nightmare, terrible, awful, horrible, bad, worse, worst, disaster, mess, xss, csrf, rce, dos, oob, uaf, use after free, double free, off by one, infinite loop, security hole*, showstopper*, red, p0, p1, confidence low, low confidence, no confidence, confidence 0, confidence none, an error, errors in, error in, has errors, compile error*, type error*, syntax error*, logic error*, runtime error*, throws, raises, partial*, round #, last round, first round, second round, iteration #, runde #, tour #, ronda #, rodada #, раунд*, 轮, ラウンド,
fehler*, kaputt, lücke*, schwachstelle*, unsicher, gefährlich, falsch*, fehlt, fehlen, kritisch*, absturz*, stürzt, passwort*, klartext, leck*, problem*, schlecht,
faille*, cassé*, manque*, critique*, fuite*, plante*, mot de passe, en clair, dangereu*, faux, problème*, mauvais*, vulnérab*,
fallo*, falla*, roto*, rota, falta*, crític*, fuga*, contraseña*, texto plano, inseguro*, peligros*, mal, problema*, vulnerabilidad*, inyección,
falha*, quebrad*, falta*, crític*, vazamento*, vaza, senha*, texto puro, texto claro, insegur*, perigos*, problema*, vulnerabilidade*, injeção,
errore*, rotto, manca*, critic*, perdita, insicur*, problema, problemi, vulnerabilit*,
уязвим*, сломан*, утечк*, критич*, парол*, опасн*, неправильн*, падает, проблем*, баг*, дыр*, инъекц*,
漏洞, 失败, 泄露, 泄漏, 崩溃, 密码, 明文, 注入, 缺少, 严重, 危险, 缺陷, 问题, 隐患, 风险, 致命,
脆弱, 失敗, 漏洩, リーク, クラッシュ, パスワード, 平文, 欠け, 重大, 危険, 欠陥, 問題, バグ, 壊れ, 注入, インジェクション, 致命, リスク,
취약, 실패, 누출, 유출, 비밀번호, 심각, 위험, 문제, 결함, 버그";

/// Phrases that say that a defect is dealt with.
pub(super) const SETTLES: &str = "
fixed, resolved, addressed, handled, gone, fixes, resolves, addresses, solves, closes, handles, handling, as expected, no longer, prevents, prevented, avoids, closed, repaired, removed, eliminated, solved, mitigated,
behoben, gelöst, erledigt, beseitigt, corrigé, corrigée, corrigés, corrigées, résolu*, corregido*, corregida*, resuelto*, resuelta*, solucionad*, corrigido*, corrigida*, resolvid*, corretto, risolt*, исправлен*, устранен*, решен*,
已修复, 已解决, 修复了, 修正済み, 解決済み, 修正され, 해결됨";

/// Phrases that speak for the change. An explanation behind an approval has to have one in each sentence.
pub(super) const PRAISES: &str = "
all, every, everything, pass*, clean*, correct*, proper*, well, good, great, nice*, neat*, solid*, excellent, thanks, thank, ready, complete*, fixed, resolved, addressed, satisf*, verified, confirmed, tested, covered, covers, tidy, sound, works, fine, exactly, accurate*, minimal, appropriate*, confidence, happy, safe*, simple, clear*, lovely, perfect*, no objections, nothing, none, straightforward, meets, matches, optional, additive, documented, intentional, improves, improvement*, idiomatic, readable, consistent,
gut, gute, guter, sauber*, alle, alles, danke, vollständig, bestanden, grün, klar, korrekt*, fertig, prima, schön, passt,
bien, bon, bonne, tous, tout, toutes, toute, merci, propre*, correct*, parfait*, rien, clair,
buen*, todo, toda, todos, todas, gracias, limpi*, correct*, excelente, perfect*, nada, claro, clara,
bom, boa, tudo, obrigad*, limp*, corret*, perfeit*, nenhum, nenhuma,
bene, buon*, tutt*, grazie, puli*, corrett*, perfett*, niente,
хорош*, отличн*, все, всё, спасибо, чист*, корректн*, пройден*, успешн*, замечательн*,
好, 良, 正确, 全部, 全て, 通过, 谢谢, 合格, 清晰, 没有问题, 完整, すべて, 正しい, ありがとう, 問題なし, 綺麗, きれい, 適切, 良い, 좋, 모두, 감사";

/// Whole-document refusals of the form and prompts: these count however long the document is.
pub(super) const HARD: &str = "
did not look, did not read, did not open, did not check, did not see, did not inspect, did not examine, did not run, did not test, did not verify, didn't look, didn't read, didn't open, didn't check, didn't see, didn't inspect, didn't examine, didn't run, didn't test, didn't verify, have not looked, have not read, have not opened, have not checked, have not seen, have not inspected, have not examined, have not run, have not tested, have not verified, haven't looked, haven't read, haven't opened, haven't checked, haven't seen, haven't inspected, haven't examined, haven't run, haven't tested, haven't verified, never looked, never read, never opened, never checked, never saw, never inspected, never examined, never ran, never tested, without opening, without checking, without testing, without inspecting,
nicht angesehen, nicht angeschaut, nicht geöffnet, nicht überprüft, pas lu, pas regardé, pas ouvert, pas vérifié, no leí, no he leído, no miré, no revisé, não li, não olhei, não verifiquei, non ho letto, не смотрел*, не читал*, не открывал*, не проверял*, 没看, 没有看, 未查看, 未阅读, 没有检查, 見ていません, 読んでいません, 確認していません, 읽지 않, 보지 않, 확인하지 않,
respond with, reply with, answer with, output format, response format, answer format, your task is, you are a code reviewer, you are a reviewer, you are a senior, you are an expert,
take that back, take it back, scratch that, strike that, on second thought, disregard the, disregard my, disregard this, changed my mind, i was wrong, i withdraw, withdraw my, revoke my, i revoke, i retract, retract my, not an approval, no approval, approval denied, approval withheld, approval refused, approval revoked, approval pending, approval is conditional, conditional on,
could not read, couldn't read, cannot read, can't read, unable to read, unable to open, unable to access, unable to load, unable to review, unable to finish, unable to complete, could not open, could not access, could not load, could not review, could not finish, could not complete, did not finish, ran out of, run out of, out of context, context window, context limit, context length, token limit, review incomplete, incomplete review, review is incomplete, review was incomplete, review is partial, partial review, partially reviewed, only partially, not reviewed, not fully reviewed, did not review, didn't review, have not reviewed, haven't reviewed, not been reviewed, was not reviewed, were not reviewed, only reviewed, only looked at, only skimmed, only had time, review was interrupted, review was aborted, review was cut, review timed out, output truncated, output was truncated, truncated output, diff was truncated, diff truncated, diff is truncated, was cut off, were cut off, been cut off, to be continued, not approve, not approved, not yet approved, cannot approve, can't approve, won't approve, don't approve, do not approve, not merge, do not merge, don't merge, not ready to merge, not ready for merge, request changes, requesting changes, changes requested, reject this, i reject, before merging, before merge, before it can be merged, before this can be merged, before it is merged, until it is fixed, until this is fixed, until these are fixed, once fixed, once this is fixed, once that is fixed, once these are fixed, once it is fixed, once they are fixed, once resolved, once addressed, after fixing, after the fix,
nicht genehmigt, nicht genehmigen, nicht freigegeben, nicht freigeben, änderungen erforderlich, änderungen nötig, unvollständig geprüft, nicht geprüft, nicht gelesen,
non approuvé, ne peux pas approuver, modifications requises, modifications demandées, sous réserve,
no aprobado, no puedo aprobar, cambios solicitados, cambios requeridos, se requieren cambios,
não aprovado, não posso aprovar, mudanças solicitadas, alterações necessárias,
non approvato, modifiche richieste,
не одобрен*, не одобряю, не могу одобрить, требуются изменения, требуются исправления,
不批准, 不通过, 未通过, 不予, 无法批准, 不能批准, 不能合并, 不可合并, 拒绝合并, 驳回, 需要修改, 请修改, 批准前, 合并前必须, 无法读取, 未能读取, 审查未完成,
承認できません, 承認しません, 承認できない, 承認不可, 却下, 差し戻し, 要修正, マージしない, マージ不可, 修正が必要, 読み込めません, レビュー未完了,
승인 불가, 승인할 수 없, 승인하지, 반려, 수정 필요";

/// Reservations that count in the paragraphs after a verdict, however long the document is.
pub(super) const TURNS: &str = "
by the way, btw, but, however, that said, except, unless, provided, only if, only when, only after, only once, subject to, as long as, on condition, conditional, with the exception, caveat, pending, until, once, if, although, though,
aber, jedoch, allerdings, sofern, falls, sobald, vorausgesetzt, unter vorbehalt, mais, cependant, toutefois, sauf, à condition, sous réserve, pero, sin embargo, siempre que, salvo, mas, porém, contudo, desde que, ma, però, tuttavia, purché, но, однако, если, при условии";

/// Refusals as the value of a verdict.
pub(super) const REFUSAL_VALUES: &str = "
abgelehnt, ablehnen, zurückgewiesen, nicht genehmigt, nicht freigegeben, nicht mergen, änderungen erforderlich, änderungen nötig, änderungen notwendig, änderungen angefordert, nachbesserung, überarbeiten, überarbeitung, blockiert,
refusé*, rejeté*, rejet, non approuvé*, ne pas fusionner, modifications requises, modifications demandées, modifications nécessaires, changements requis, changements demandés, à revoir, à corriger, bloqué*,
rechazad*, rechazar, rechazo, no aprobad*, no aprobar, no fusionar, cambios solicitados, cambios requeridos, cambios necesarios, se requieren cambios, requiere cambios, bloquead*,
rejeitad*, rejeitar, reprovad*, reprovar, não aprovad*, não aprovar, não mesclar, mudanças solicitadas, mudanças necessárias, alterações solicitadas, alterações necessárias, requer alterações, bloquead*,
respint*, rifiutat*, non approvat*, modifiche richieste, modifiche necessarie, da rivedere, bloccat*,
отклонен*, отклонён*, отклонить, отклоняю, отказ*, не одобрен*, не одобряю, не принято, требуются изменения, требуются исправления, нужны изменения, нужны исправления, на доработку, необходимы изменения, заблокирован*,
不批准, 不予批准, 不通过, 未通过, 拒绝, 驳回, 需要修改, 需修改, 请修改, 要求修改, 不能合并, 不可合并, 不同意, 无法批准, 退回, 不合格, 不通過, 拒絕, 駁回,
承認できません, 承認しません, 承認できない, 承認不可, 不承認, 非承認, 却下, 差し戻し, 差戻し, 要修正, 修正が必要, 変更要求, 変更を要求, マージ不可, 不合格, 拒否,
승인 불가, 승인할 수 없, 승인하지 않, 거부, 거절, 반려, 수정 필요, 변경 요청,
chưa đạt, không đạt";

/// Refusals that are plain in any sentence.
pub(super) const REFUSAL_SENTENCES: &str = "
kann das nicht genehmigen, kann dies nicht genehmigen, kann ich nicht genehmigen, kann die änderung nicht genehmigen, kann diese änderung nicht genehmigen, ich genehmige nicht, ich genehmige das nicht, ich lehne ab, lehne die änderung ab, lehne diese änderung ab, lehne ich ab, nicht gemergt werden, nicht mergen, darf nicht gemergt, ich fordere änderungen, änderungen sind erforderlich, änderungen sind nötig, änderungen sind notwendig, nicht genehmigt,
ne peux pas approuver, peux pas approuver, n'approuve pas, je refuse, je rejette, ne pas fusionner, ne doit pas être fusionné*, je demande des modifications, je demande des changements, des modifications sont nécessaires, des modifications sont requises, des changements sont nécessaires, non approuvé,
no puedo aprobar, no apruebo, no se puede aprobar, no se aprueba, rechazo este, rechazo el, rechazo la, rechazo los, no fusionar, no debe fusionarse, solicito cambios, pido cambios, se requieren cambios, se necesitan cambios, no aprobado,
não posso aprovar, não aprovo, não pode ser aprovad*, rejeito, não mesclar, não deve ser mesclad*, solicito alterações, solicito mudanças, peço alterações, são necessárias alterações, são necessárias mudanças, não aprovado,
non posso approvare, non approvo, rifiuto, richiedo modifiche, sono necessarie modifiche, non approvato,
не могу одобрить, не одобряю, отклоняю, нельзя сливать, не сливать, прошу внести изменения, прошу исправить, требуются изменения, требуются исправления, необходимы исправления, не одобрено,
不批准, 不予批准, 无法批准, 不能批准, 不能合并, 不可合并, 不同意合并, 拒绝合并, 请求修改, 我拒绝, 审查不通过, 评审不通过, 不予通过,
承認できません, 承認しません, 承認できない, 承認いたしません, マージできません, マージしないで, マージすべきではありません, 修正を要求, 変更を要求, 変更をお願い, 却下します, 差し戻します, 不承認,
승인할 수 없, 승인하지 않, 승인 불가, 반려합니다, 병합하면 안, 변경을 요청";
